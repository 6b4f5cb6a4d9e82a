// The answering half of ClientPort: capture, fence, publish (V7).
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/node/client_connection.h"
#include "ring/node/client_port.h"

namespace ring::node {

using protocol::Outcome;
using protocol::ReplyHeader;

ClientPort::Connection* ClientPort::Find(const coordinator::ReplyTo& to) const {
  if (to.connection >= connections_.size()) return nullptr;
  Connection* const connection = connections_[to.connection].get();
  return connection != nullptr && connection->generation == to.generation ? connection : nullptr;
}

bool ClientPort::Reachable(const coordinator::ReplyTo& to) const { return Find(to) != nullptr; }

void ClientPort::Answer(const coordinator::ReplyTo& to, const coordinator::Reply& reply,
                        coordinator::ShardCoordinator& shard) {
  Connection* const connection = Find(to);
  if (connection == nullptr) return;  // the client is gone; its retry finds the completion record
  ReplyHeader header;
  header.word.stamp = to.stamp;
  header.word.outcome = reply.outcome;
  header.word.memgest = reply.memgest.value();
  header.value_length = reply.value_length;
  header.value_crc = reply.value_crc;
  header.version = reply.version.bits();
  header.expiry_ns = reply.expiry_ns;
  header.view_epoch = view_epoch_;
  header.owner = options_.node.value();
  if (!reply.bytes.empty()) {
    StageCopy(*connection, to, header, reply.bytes, &shard);
  } else if (reply.value.line == memgest::kNoLine) {
    StageHeader(*connection, to, header, nullptr, Mutant("L3") ? nullptr : &shard);
  } else {
    StageValue(*connection, to, reply, shard, &header);
  }
}

void ClientPort::StageValue(Connection& connection, const coordinator::ReplyTo& to,
                            const coordinator::Reply& reply, coordinator::ShardCoordinator& shard,
                            ReplyHeader* header) {
  const std::uint32_t number = reply.value.line;
  const memgest::MetadataLine& line = shard.lines().line(number);
  const memgest::HeapSpace& heap = shard.FindMemgest(reply.value.memgest)->heap();
  const bool is_inline = reply.value_length <= protocol::kInlineValueSizeMax;
  if (!is_inline && (!to.has_buffer || to.buffer_length < reply.value_length)) {
    header->word.outcome = Outcome::kReplyTooLarge;
    StageHeader(connection, to, *header, nullptr, &shard);
    return;
  }
  shard.Pin(number);  // V6
  connection.pinned.push_back({capture_ & kSequenceMask, &shard, number});
  const bool in_ranges = (line.flags & memgest::kLarge) != 0;
  if (is_inline && !in_ranges) {
    const rdma::Sge value = {heap.At(line.offset_cells), reply.value_length,
                             heap.lkey(line.offset_cells)};
    StageHeader(connection, to, *header, &value, &shard);
    return;
  }
  // A value over its memgest's block size lies in ranges, even if it is short enough to stand
  // behind the header.
  const std::uint64_t slot =
      connection.replies.address + std::uint64_t{to.slot} * protocol::kReplySlotSize;
  const std::uint64_t target = is_inline ? slot + protocol::kCell : to.buffer_address;
  const std::uint32_t rkey = is_inline ? connection.replies.rkey : to.buffer_rkey;
  if (!is_inline) header->word.flags = protocol::kValueInBuffer;
  const memgest::Range whole = {line.offset_cells, (reply.value_length + 63) / 64};
  const absl::Span<const memgest::Range> ranges =
      in_ranges ? shard.lines().Ranges(number) : absl::MakeConstSpan(&whole, 1);
  std::uint32_t done = 0;
  for (const memgest::Range& range : ranges) {
    const std::uint32_t size = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{range.length_cells} * 64, reply.value_length - done));
    const rdma::Sge bytes = {heap.At(range.offset_cells), size, heap.lkey(range.offset_cells)};
    connection.bodies.push_back({bytes, rkey, target + done, capture_, &shard});
    done += size;
  }
  StageHeader(connection, to, *header, nullptr, &shard);
}

// The client polls the first word: the rest of its cache line is written right before it, behind
// the fence, and not with the value. Else the line would go to the client and back in between.
void ClientPort::StageHeader(Connection& connection, const coordinator::ReplyTo& to,
                             const ReplyHeader& header, const rdma::Sge* value,
                             const coordinator::ShardCoordinator* shard) {
  const std::uint64_t slot =
      connection.replies.address + std::uint64_t{to.slot} * protocol::kReplySlotSize;
  if (connection.words.empty()) {
    staged_.push_back(connection.index);
  } else if (connection.words.front().capture != capture_) {
    // The client gave up what is held for this slot, and the cell is about to be written.
    DropWords(connection, slot);
  }
  std::byte* const cell = connection.headers.address + std::size_t{to.slot} * protocol::kCell;
  std::memcpy(cell, &header, sizeof(header));
  const std::uint32_t lkey = connection.headers.lkey;
  constexpr std::uint32_t kWord = sizeof(protocol::ReplyWord);
  const std::uint32_t rkey = connection.replies.rkey;
  if (value != nullptr)
    connection.bodies.push_back({*value, rkey, slot + protocol::kCell, capture_, shard});
  connection.words.push_back(
      {{cell + kWord, protocol::kCell - kWord, lkey}, rkey, slot + kWord, capture_, shard});
  connection.words.push_back({{cell, kWord, lkey}, rkey, slot, capture_, shard});
}

// The words of an answer that is held; its place in staged_ stays.
void ClientPort::DropWords(Connection& connection, std::uint64_t slot_address) {
  constexpr std::uint32_t kWord = sizeof(protocol::ReplyWord);
  std::erase_if(connection.words, [slot_address](const ConnectionWrite& word) {
    return word.remote_address == slot_address || word.remote_address == slot_address + kWord;
  });
}

// Bodies that are still queued are dropped with them: nobody was told where they would stand. Who
// waits for one of these answers asks again once its connection has ended (X1); on this one the
// answers to others would say to it that its own is still to come.
void ClientPort::DropHeld(const coordinator::ShardCoordinator* shard) {
  if (Mutant("V7")) return;
  const auto of_shard = [shard](const ConnectionWrite& write) { return write.shard == shard; };
  ending_.clear();
  std::erase_if(staged_, [&](std::uint32_t index) {
    Connection& connection = *connections_[index];
    const std::size_t dropped =
        std::erase_if(connection.bodies, of_shard) + std::erase_if(connection.words, of_shard);
    if (dropped > 0) connection.closing = true;
    if (!connection.words.empty()) return false;
    // Nothing is under way of which the completion would do it.
    if (connection.bodies.empty() && connection.outstanding == 0) UnpinAll(connection);
    if (connection.closing && connection.outstanding == 0) ending_.push_back(index);
    return true;
  });
  for (const std::uint32_t index : ending_) Close(index);
}

void ClientPort::AnswerBare(const coordinator::ReplyTo& to, Outcome outcome, NodeId owner,
                            absl::string_view value, const coordinator::ShardCoordinator* of) {
  Connection* const connection = Find(to);
  if (connection == nullptr) return;
  ReplyHeader header;
  header.word.stamp = to.stamp;
  header.word.outcome = outcome;
  header.view_epoch = view_epoch_;
  header.owner = owner.value();
  if (value.empty()) {
    StageHeader(*connection, to, header, nullptr, of);
    return;
  }
  header.value_length = static_cast<std::uint32_t>(value.size());
  header.value_crc = Crc32c(value.data(), value.size());
  StageCopy(*connection, to, header, value, of);
}

// Of what lies in no slot, views and decoded values: both are rare.
void ClientPort::StageCopy(Connection& connection, const coordinator::ReplyTo& to,
                           ReplyHeader header, absl::string_view value,
                           const coordinator::ShardCoordinator* of) {
  const bool is_inline = value.size() <= protocol::kInlineValueSizeMax;
  if (!is_inline && (!to.has_buffer || to.buffer_length < value.size())) {
    header.word.outcome = Outcome::kReplyTooLarge;
    StageHeader(connection, to, header, nullptr, of);
    return;
  }
  const absl::StatusOr<std::uint32_t> copy = copies_.Keep(value);
  if (!copy.ok()) {
    header = ReplyHeader{};
    header.word.stamp = to.stamp;
    header.word.outcome = Outcome::kResourceExhausted;
    StageHeader(connection, to, header, nullptr, of);
    return;
  }
  connection.pinned.push_back({capture_ & kSequenceMask, nullptr, *copy});  // V6
  const rdma::Sge sge = copies_.At(*copy);
  if (is_inline) {
    StageHeader(connection, to, header, &sge, of);
    return;
  }
  header.word.flags = protocol::kValueInBuffer;
  connection.bodies.push_back({sge, to.buffer_rkey, to.buffer_address, capture_, of});
  StageHeader(connection, to, header, nullptr, of);
}

// As many as there is room for; the rest stays for another turn.
void ClientPort::Post(Connection& connection, std::vector<ConnectionWrite>* writes,
                      std::size_t limit, bool are_words, std::uint64_t sequence) {
  std::size_t done = 0;
  while (done < limit) {
    // One place is kept for the bell.
    const std::size_t room = std::max(Room(connection), 1u) - 1;
    const std::size_t count = std::min({chain_.size(), limit - done, room});
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) {
      const ConnectionWrite& write = (*writes)[done + i];
      // An unacknowledged WRITE since construction; the rest is set each time.
      rdma::WorkRequest& request = chain_[i];
      request.wr_id = std::uint64_t{connection.index} << kIndexShift;  // if it fails
      request.next = i + 1 < count ? &chain_[i + 1] : nullptr;
      request.signaled = false;
      request.more = false;
      request.sges = absl::MakeConstSpan(&write.bytes, 1);
      request.remote_address = write.remote_address;
      request.rkey = write.rkey;
    }
    done += count;
    // Every chain ends signalled, so that the send queue empties; the pins go with the last word.
    rdma::WorkRequest& last = chain_[count - 1];
    last.signaled = true;
    last.more = !are_words && room > count + 1;  // a body or a word follows at once
    last.wr_id = (std::uint64_t{count} << kCountShift) |
                 (std::uint64_t{connection.index} << kIndexShift) |
                 (done == limit ? sequence : connection.completed);
    if (!connection.qp->PostSend(chain_[0]).ok()) {
      connection.broken = connection.closing = true;
      break;
    }
    CountOutstanding(connection, connection.outstanding + static_cast<std::uint32_t>(count));
  }
  writes->erase(writes->begin(), writes->begin() + static_cast<std::ptrdiff_t>(done));
}

// Those that passed the fence, and those that need not; gives whether any was posted.
bool ClientPort::PostWords(Connection& connection, std::uint64_t captured, std::uint64_t passed) {
  std::vector<ConnectionWrite>& words = connection.words;
  std::size_t limit = words.size();
  std::uint64_t sequence = captured;
  if (passed < captured) {
    const auto held =
        std::stable_partition(words.begin(), words.end(), [passed](const ConnectionWrite& word) {
          return word.shard == nullptr || word.capture <= passed;
        });
    limit = static_cast<std::size_t>(held - words.begin());
    if (held != words.end()) sequence = held->capture - 1;
  }
  if (limit == 0) return false;
  Post(connection, &words, limit, true, sequence & kSequenceMask);
  return true;
}

// With the next look at completions.
void ClientPort::Ring(Connection& connection) {
  if (!std::exchange(connection.ringing, true)) ringing_.push_back(connection.index);
}

// False: there is no room for the bell yet.
bool ClientPort::RingBell(Connection& connection) {
  const std::uint32_t sleep = connection.qp->PeerSleep();
  if (sleep == 0 || sleep == connection.rung_sleep) return true;
  if (Room(connection) == 0) return false;
  rdma::WorkRequest doorbell;
  doorbell.opcode = rdma::Opcode::kSend;
  doorbell.signaled = true;
  doorbell.wr_id = (std::uint64_t{1} << kCountShift) |
                   (std::uint64_t{connection.index} << kIndexShift) | connection.completed;
  if (connection.qp->PostSend(doorbell).ok()) {
    connection.rung_sleep = sleep;
    CountOutstanding(connection, connection.outstanding + 1);
  }
  return true;
}

void ClientPort::Send(coordinator::Fence& fence) {
  if (staged_.empty()) return;
  const std::uint64_t early = Mutant("V7-order") ? fence.Decide(capture_) : 0;
  for (const std::uint32_t index : staged_) {
    Connection& connection = *connections_[index];
    // The values are captured...
    Post(connection, &connection.bodies, connection.bodies.size(), false, connection.completed);
  }
  const std::uint64_t captured = capture_++;
  // ...then the role is checked...
  const std::uint64_t passed = Mutant("V7-order") ? early : fence.Decide(captured);
  ending_.clear();
  held_.clear();
  for (const std::uint32_t index : staged_) {
    Connection& connection = *connections_[index];
    if (connection.broken) {  // no word without its body: the slot has the last's
      connection.bodies.clear();
      connection.words.clear();
    }
    // ...and only then
    const bool posted =
        connection.bodies.empty() && PostWords(connection, captured, passed) && !connection.broken;
    // The last answer goes out before the connection ends: its completion ends it.
    if (connection.broken) {
      ending_.push_back(index);
    } else if (!connection.words.empty()) {
      held_.push_back(index);
      if (posted) Ring(connection);
    } else if (connection.closing && connection.outstanding == 0) {
      ending_.push_back(index);
    } else {
      Ring(connection);
    }
  }
  staged_.swap(held_);
  for (const std::uint32_t index : ending_) Close(index);
}

// Whether a client sleeps is asked a turn after its answers were written: asking waits for the
// stores, and by then they have drained. A node that answered does not sleep before.
void ClientPort::RingBells() {
  std::erase_if(ringing_, [this](std::uint32_t index) {
    Connection* const connection = connections_[index].get();
    if (connection == nullptr) return true;
    connection->ringing = !connection->broken && !RingBell(*connection);
    return !connection->ringing;
  });
}

}  // namespace ring::node
