// From a request ring to an operation: route by key, run, answer what is not this node's to answer.
#include <bit>
#include <cstring>

#include "ring/coordinator/key_hash.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {
// The client can change a long key at any time: one copy is what is routed, hashed and stored.
absl::string_view OwnKey(absl::string_view key, char* to) {
  if (key.size() <= protocol::kInlineKeySizeMax) return key;  // in the header, which is a copy
  for (std::size_t at = 0; at < key.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word =
        __atomic_load_n(reinterpret_cast<const std::uint64_t*>(key.data() + at), __ATOMIC_RELAXED);
    std::memcpy(to + at, &word, sizeof(word));
  }
  return absl::string_view(to, key.size());
}
}  // namespace

using protocol::Operation;
using protocol::Outcome;

std::size_t Node::Gather(absl::Span<BatchItem> items) {
  std::size_t count = 0;
  while (count < items.size() && clients_->Take(&items[count].incoming)) ++count;
  return count;
}

void Node::Route(BatchItem* item) {
  const protocol::RequestHeader& header = item->incoming.view.header;
  coordinator::Request& request = item->request;
  request = coordinator::Request{};
  item->shard = nullptr;
  clients_->Address(item->incoming, &request);
  request.operation = header.word.operation;
  if (item->incoming.outcome != Outcome::kOk || request.operation == Operation::kGetView ||
      request.operation == Operation::kWhoOwns || view_ == nullptr)
    return;
  request.flags = header.word.flags;
  request.key = OwnKey(item->incoming.view.key, item->key.data());
  request.value = item->incoming.view.value;
  request.value_length = header.value_length;
  request.value_crc = header.value_crc;
  const bool conditional = (header.word.flags & protocol::kIfVersion) != 0;
  (conditional ? request.if_version : request.known_version) = Version(header.if_version);
  request.seq = header.seq;
  request.incomplete_delta = header.incomplete_delta;
  request.memgest = (header.word.flags & protocol::kDefaultMemgest) != 0
                        ? view_->default_memgest
                        : MemgestId(header.memgest);
  const cluster::Place place = routing_->OfKey(request.key);
  item->shard = FindShard(place.group, place.shard);
  if (item->shard == nullptr || !item->shard->Takes(request.operation)) return;
  request.hash = coordinator::KeyHash(request.key, hash_seed_);
  if (request.operation != Operation::kGet && request.operation != Operation::kWhere) {
    request.request_crc = coordinator::RequestCrc(request);
  }
  item->shard->coordinator()->PrefetchBucket(request);
}

void Node::Prefetch(const BatchItem& item) const {
  if (item.shard != nullptr && item.shard->Takes(item.request.operation))
    item.shard->coordinator()->PrefetchLines(item.request);
}

void Node::Execute(BatchItem& item) {
  coordinator::Request& request = item.request;
  if (item.incoming.outcome != Outcome::kOk) {
    ++counters_.bad_requests;
    clients_->AnswerBare(request.reply, item.incoming.outcome, options_.id);
    return;
  }
  if (view_ == nullptr) {
    clients_->AnswerBare(request.reply, Outcome::kUnavailable, options_.id);
    return;
  }
  if (request.operation == Operation::kGetView) {
    if (encoded_view_.empty()) encoded_view_ = cluster::EncodeView(*view_);
    clients_->AnswerBare(request.reply, Outcome::kOk, options_.id, encoded_view_);
    return;
  }
  if (request.operation == Operation::kWhoOwns) {
    AnswerOwner(request.reply,
                std::bit_cast<protocol::OwnerQuestion>(item.incoming.view.header.if_version));
    return;
  }
  if (item.shard == nullptr) {
    const cluster::Place place = routing_->OfKey(request.key);
    const NodeId owner = view_->Coordinator(place.group, place.shard);
    if (owner == cluster::kNoNode) {  // L10: until a node joins
      clients_->AnswerBare(request.reply, Outcome::kUnavailable, owner);
      return;
    }
    ++counters_.wrong_owner;
    clients_->AnswerBare(request.reply, Outcome::kWrongOwner, owner);
    return;
  }
  if (!item.shard->Takes(request.operation)) {
    clients_->AnswerBare(request.reply, Outcome::kUnavailable, options_.id);
    return;
  }
  coordinator::ShardCoordinator& shard = *item.shard->coordinator();
  item.shard->active = true;
  if (request.seq != 0) {
    request.client = clients_->Records(item.incoming.connection, item.shard->index(), shard);
    if (request.client == nullptr) {
      clients_->AnswerBare(request.reply, Outcome::kResourceExhausted, options_.id);
      return;
    }
  }
  shard.Submit(request);
}

// X3: OK is said by who serves the slot, and published by the fence like every answer; all others
// refuse, so that the asker's ring stays in step. Who is behind the asker's view cannot know (L9).
void Node::AnswerOwner(const coordinator::ReplyTo& to, const protocol::OwnerQuestion& question) {
  const cluster::Place place = routing_->OfSlot(question.slot);
  CoordinatedShard* const shard = FindShard(place.group, place.shard);
  const NodeId owner = view_->Coordinator(place.group, place.shard);
  if (shard == nullptr && owner != options_.id) {
    clients_->AnswerBare(to, Outcome::kWrongOwner, owner);
    return;
  }
  const bool owns = shard != nullptr && shard->serving() && question.view_epoch <= view_->epoch;
  if (owns) {  // X3: only who is fenced in says so
    clients_->AnswerBare(to, Outcome::kOk, options_.id, "", shard->coordinator());
  } else {
    clients_->AnswerBare(to, Outcome::kUnavailable, options_.id);
  }
}

}  // namespace ring::node
