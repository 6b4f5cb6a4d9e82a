#include "tests/coordinator/shard_harness.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "ring/base/crc32c.h"
#include "ring/base/random.h"

namespace ring::coordinator {
namespace {
constexpr int kShards = 3;
constexpr int kRedundant = 2;
constexpr int kTurnsMax = 20000;
constexpr std::uint64_t kHashSeed = 0x5eed;
}  // namespace

std::vector<protocol::MemgestDescriptor> PaperMemgests(std::uint32_t block_size) {
  std::vector<protocol::MemgestDescriptor> all;
  const auto add = [&](const char* name, int r, int k, int m) {
    protocol::MemgestDescriptor descriptor;
    descriptor.id = MemgestId(static_cast<std::uint16_t>(all.size()));
    descriptor.name = name;
    if (k > 0) descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor.r = static_cast<std::uint8_t>(r);
    descriptor.k = static_cast<std::uint8_t>(k);
    descriptor.m = static_cast<std::uint8_t>(m);
    descriptor.block_size = block_size;
    RING_CHECK(descriptor.Validate(kShards, kRedundant).ok());
    all.push_back(descriptor);
  };
  for (int r = 1; r <= 4; ++r)
    add(r == 1 ? "REP1" : r == 2 ? "REP2" : r == 3 ? "REP3" : "REP4", r, 0, 0);
  add("SRS21", 0, 2, 1);
  add("SRS31", 0, 3, 1);
  add("SRS32", 0, 3, 2);
  return all;
}

std::string Bytes(std::size_t size, std::uint64_t tag) {
  SeededRandom random(tag);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random.Next64();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return bytes;
}

ShardHarness::ShardHarness(const HarnessOptions& options) : options_(options) {
  device_.limit = taker_device_.limit = options.memory_limit;
  absl::StatusOr<std::unique_ptr<memgest::DeltaArena>> arena =
      memgest::DeltaArena::Create(&device_);
  RING_CHECK(arena.ok()) << arena.status().ToString();
  arena_ = *std::move(arena);
  ShardOptions shard;
  shard.epoch = epoch_;
  shard.s = kShards;
  shard.d = kRedundant;
  shard.line_count_max = options.line_count_max;
  shard.pace = options.pace;
  shard.hash_seed = kHashSeed;
  shard.catalogue = options.catalogue;
  shard.decoder = options.decoder;
  shard_ = std::make_unique<ShardCoordinator>(shard, &device_, arena_.get(), this);
  for (const int role : {1, 3, 4}) {
    members_.push_back(
        std::make_unique<MemberTwin>(&member_device_, Role(static_cast<std::uint16_t>(role)),
                                     shard.epoch, options.ring_size, options.line_count_max));
    members_.back()->MakeWriter(&shard_->log());
  }
  for (protocol::MemgestDescriptor descriptor : PaperMemgests(options.block_size)) {
    const auto own = options.block_sizes.find(descriptor.id.value());
    if (own != options.block_sizes.end()) descriptor.block_size = own->second;
    if (options.commit_all.contains(descriptor.id.value()))
      descriptor.commit = protocol::CommitRule::kAll;
    RING_CHECK(descriptor.Validate(kShards, kRedundant).ok());
    for (const Role role : descriptor.MemberRoles(ShardId(0), kShards, kRedundant)) {
      member(role.value()).AddMemgest(&member_device_, descriptor, kShards);
    }
    if (!options.missing.contains(descriptor.id.value())) shard_->AddMemgest(descriptor);
  }
}

void ShardHarness::AddMissing() {
  for (const protocol::MemgestDescriptor& descriptor : PaperMemgests(options_.block_size)) {
    if (options_.missing.contains(descriptor.id.value())) shard_->AddMemgest(descriptor);
  }
}

void ShardHarness::RemoveMemgest(MemgestId memgest) {
  Settle();
  shard_->RemoveMemgest(memgest);
  for (const std::unique_ptr<MemberTwin>& member : members_) member->shard().RemoveMemgest(memgest);
  removed_.insert(memgest);
}

ShardHarness::~ShardHarness() = default;

MemberTwin& ShardHarness::member(int role) {
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    if (member->role().value() == role) return *member;
  }
  RING_CHECK(false) << "role=" << role;
  return *members_[0];
}

std::vector<MemberTwin*> ShardHarness::members() {
  std::vector<MemberTwin*> all;
  for (const std::unique_ptr<MemberTwin>& member : members_) all.push_back(member.get());
  return all;
}

void ShardHarness::SetFlow(bool lands, bool acks) {
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    member->lands = lands;
    member->acks = acks;
  }
}

int ShardHarness::Send(Sent sent) {
  const auto number = static_cast<int>(answers_.size());
  answers_.emplace_back();
  Sent& kept = sent_.emplace_back(std::move(sent));
  Request& request = kept.request;
  request.key = kept.key;
  request.hash = KeyHash(request.key, kHashSeed);
  request.reply.stamp = static_cast<std::uint32_t>(number);
  request.reply.slot = static_cast<std::uint16_t>(number);  // as a client names one per request
  if (request.operation == protocol::Operation::kPut) {
    request.value_length = static_cast<std::uint32_t>(kept.value.size());
    request.value_crc = Crc32c(kept.value.data(), kept.value.size());
    if ((request.flags & protocol::kLargeValue) != 0) {
      request.reply.has_buffer = true;
      request.reply.buffer_address = reinterpret_cast<std::uint64_t>(kept.value.data());
      request.reply.buffer_length = request.value_length;
    } else {
      request.value = reinterpret_cast<const std::byte*>(kept.value.data());
    }
  }
  if (kept.client != nullptr) {
    request.client_id = kept.client->id();
    request.client = shard_->completions().FindOrAdd(kept.client->id());
    request.request_crc = RequestCrc(request);
  }
  const Request wire = request;
  shard_->Submit(wire);
  return number;
}

namespace {
Sent Mutation(protocol::Operation operation, absl::string_view key, const SendOptions& options,
              TestClient* own) {
  Sent sent;
  sent.key = std::string(key);
  sent.client = options.client != nullptr ? options.client : own;
  sent.request.operation = operation;
  sent.request.seq = sent.client->Take();
  sent.request.incomplete_delta =
      static_cast<std::uint32_t>(sent.request.seq - sent.client->first_incomplete());
  if (options.conditional) {
    sent.request.flags |= protocol::kIfVersion;
    sent.request.if_version = options.if_version;
  }
  if (options.large) sent.request.flags |= protocol::kLargeValue;
  return sent;
}
}  // namespace

int ShardHarness::Put(MemgestId memgest, absl::string_view key, absl::string_view value,
                      const SendOptions& options) {
  Sent sent = Mutation(protocol::Operation::kPut, key, options, &client_);
  sent.value = std::string(value);
  sent.request.memgest = memgest;
  return Send(std::move(sent));
}

int ShardHarness::Delete(absl::string_view key, const SendOptions& options) {
  return Send(Mutation(protocol::Operation::kDelete, key, options, &client_));
}

int ShardHarness::Move(absl::string_view key, MemgestId memgest, const SendOptions& options) {
  Sent sent = Mutation(protocol::Operation::kMove, key, options, &client_);
  sent.request.memgest = memgest;
  return Send(std::move(sent));
}

int ShardHarness::Get(absl::string_view key, std::uint8_t flags) {
  Sent sent;
  sent.request.flags = flags;
  sent.key = std::string(key);
  sent.request.operation = protocol::Operation::kGet;
  return Send(std::move(sent));
}

int ShardHarness::Resend(int number, std::optional<Version> known) {
  const Sent& old = sent(number);
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const bool copy = old.client != nullptr && sent_[i].client == old.client &&
                      sent_[i].request.seq == old.request.seq;
    if (copy && answers_[i].count == 0) answers_[i].may_be_silent = true;
  }
  Sent again = old;
  again.request.min_version = Version();
  if (known.has_value()) {
    again.request.flags |= protocol::kRetried;
    again.request.known_version = *known;
  }
  return Send(std::move(again));
}

void ShardHarness::Answer(const ReplyTo& to, const Reply& reply, ShardCoordinator& shard) {
  if (to.connection == ~std::uint32_t{0}) return;  // a request of the node's own (G10)
  Answered& answer = answers_.at(to.stamp);
  ++answer.count;
  answer.outcome = reply.outcome;
  answer.version = reply.version;
  answer.memgest = reply.memgest;
  answer.value_length = reply.value_length;
  order_.push_back(static_cast<int>(to.stamp));
  const Sent& request = sent_.at(to.stamp);
  if (request.client != nullptr) request.client->Finished(request.request.seq);
  answer.value = std::string(reply.bytes);
  if (reply.value.line == memgest::kNoLine) return;
  answer.value = ValueOf(reply.value.line);
  EXPECT_EQ(answer.value.size(), reply.value_length);
  EXPECT_EQ(Crc32c(answer.value.data(), answer.value.size()), reply.value_crc) << "I4";
  shard.Pin(reply.value.line);
  sends_.push_back({reply.value.line, answer.value});
}

void ShardHarness::FinishSends() {
  for (; !sends_.empty(); sends_.pop_front()) {
    EXPECT_TRUE(ValueOf(sends_.front().line) == sends_.front().bytes)
        << "V6: line=" << sends_.front().line << " changed under the device";
    shard_->Unpin(sends_.front().line);
  }
}

bool ShardHarness::ReadFromClient(const ReplyTo& from, std::uint64_t offset, const rdma::Sge& to,
                                  ShardCoordinator&, std::uint64_t token) {
  if (refuses_reads) return false;
  reads_.push_back({from.buffer_address + offset, to, token});
  return true;
}

void ShardHarness::FinishRead(bool ok) {
  RING_CHECK(!reads_.empty());
  const Read read = reads_.front();
  reads_.pop_front();
  if (ok) {
    std::memcpy(read.to.address, reinterpret_cast<const void*>(read.address), read.to.length);
  }
  shard_->OnRead(read.token, ok);
}

void ShardHarness::Turn(std::uint64_t pass_ns) {
  now_ns += pass_ns;
  shard_->Flush().IgnoreError();  // what did not go out goes with the next
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    if (member->gone) continue;
    if (member->lands) member->qp.Land();
    if (member->acks) member->Ack();
  }
  shard_->Commit();
  if (!holds_sends) FinishSends();
  while (!holds_reads && !reads_.empty()) FinishRead(true);
  shard_->EndTurn(now_ns);
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    if (member->folds && !member->gone) member->Fold();
  }
}

std::vector<std::vector<memgest::SealedLog>> ShardHarness::SealAll(const std::set<int>& gone) {
  const Epoch next(epoch_.value() + 1);
  std::vector<std::vector<memgest::SealedLog>> sealed;
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    member->gone |= gone.contains(member->role().value());
    sealed.emplace_back();
    if (!member->gone) sealed.back() = member->Seal(next, last_normal_);
  }
  epoch_ = next;
  return sealed;
}

void ShardHarness::RejoinAll(const std::vector<std::vector<memgest::SealedLog>>& sealed) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i]->gone) continue;
    const absl::Status status = members_[i]->Rejoin(&shard_->log(), epoch_, sealed[i]);
    RING_CHECK(status.ok()) << status.ToString();
  }
}

void ShardHarness::BeginEpoch(const std::set<int>& gone) {
  const std::vector<std::vector<memgest::SealedLog>> sealed = SealAll(gone);
  shard_->BeginEpoch(epoch_);
  RejoinAll(sealed);
}

std::vector<NamedSet> ShardHarness::LivingSets() const {
  RoleMask living = 0;
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    if (!member->gone) living |= RoleBit(member->role());
  }
  std::vector<NamedSet> sets;
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard_->memgests()) {
    if (memgest != nullptr) sets.push_back({memgest->descriptor().id, living});
  }
  return sets;
}

void ShardHarness::Normal() {
  const auto caught_up = [this] {
    return std::all_of(members_.begin(), members_.end(),
                       [this](const std::unique_ptr<MemberTwin>& member) {
                         return member->gone || shard_->log().CaughtUp(member->role());
                       });
  };
  std::vector<std::pair<bool, bool>> flows;
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    flows.emplace_back(std::exchange(member->lands, true), std::exchange(member->acks, true));
  }
  for (int i = 0; i < kTurnsMax && !caught_up(); ++i) Turn();
  ASSERT_TRUE(caught_up());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    std::tie(members_[i]->lands, members_[i]->acks) = flows[i];
  }
  std::vector<memgest::SealedLog> adopted;
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard_->memgests()) {
    if (memgest == nullptr) continue;
    adopted.push_back({memgest->descriptor().id, 0, memgest->next_index() - 1});
  }
  shard_->ApplyNormal(LivingSets());
  last_normal_ = epoch_;
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    if (!member->gone) member->Adopt(epoch_, adopted);
  }
}

void ShardHarness::Settle() {
  holds_sends = false;
  holds_reads = false;
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    member->lands = member->acks = member->folds = true;
  }
  int turns = 0;
  for (; turns < kTurnsMax && (shard_->Busy() || !sends_.empty()); ++turns) Turn();
  ASSERT_LT(turns, kTurnsMax) << "the shard does not come to rest";
  Turns(3);  // the last control words, folds and credits
}

const Answered& ShardHarness::Run(int number) {
  for (int i = 0; i < 2000 && !answered(number); ++i) Turn();
  EXPECT_TRUE(answered(number)) << "request " << number;
  return answer(number);
}

std::uint32_t ShardHarness::HeadLine(absl::string_view key) {
  const std::uint32_t* const entry = shard_->keys().Find(KeyHash(key, kHashSeed), key);
  return entry == nullptr ? memgest::kNoLine : *entry;
}

std::vector<Version> ShardHarness::Chain(absl::string_view key) {
  std::vector<Version> chain;
  for (std::uint32_t line = HeadLine(key); line != memgest::kNoLine;
       line = shard_->lines().line(line).prev) {
    chain.push_back(Version(shard_->lines().line(line).version));
    RING_CHECK(chain.size() < 100000) << "a chain in a circle: key=" << key;
  }
  return chain;
}

std::uint64_t ShardHarness::LiveLines() {
  std::uint64_t count = 0;
  memgest::LineTable& lines = shard_->lines();
  for (std::uint32_t granule = 0; granule < lines.granule_count(); ++granule) {
    const std::uint32_t first = granule * memgest::kLinesPerGranule;
    if (!lines.granule(first).used) continue;
    for (std::uint32_t i = 0; i < memgest::kLinesPerGranule; ++i) {
      count += lines.line(first + i).version != 0 ? 1 : 0;
    }
  }
  return count;
}

std::string ShardHarness::ValueOf(std::uint32_t number) {
  const memgest::MetadataLine& line = shard_->lines().line(number);
  const memgest::HeapSpace& heap = shard_->FindMemgest(MemgestId(line.memgest))->heap();
  std::string value;
  if (line.value_length == 0) return value;
  if ((line.flags & memgest::kLarge) == 0) {
    return {reinterpret_cast<const char*>(heap.At(line.offset_cells)), line.value_length};
  }
  for (const memgest::Range& range : shard_->lines().Ranges(number)) {
    const std::size_t size = std::min<std::size_t>(std::size_t{range.length_cells} * 64,
                                                   line.value_length - value.size());
    value.append(reinterpret_cast<const char*>(heap.At(range.offset_cells)), size);
  }
  return value;
}

}  // namespace ring::coordinator
