// ring/node/recovery/piece_fetch.h — what sources prepared, fetched in pieces, many of them at a
// time.
//
// What:      PieceFetch asks for several things (snapshots, tails) of several sources at once, and
//            gives their pieces to who takes them in order: all of the first thing, then the next.
// Shape:     at most kWindow calls under way; of a thing at most kWindow pieces are here or asked
//            for beyond those that were taken. A source may say their number with the last:
//            that there is no such piece is an error when its turn comes.
// Ownership: owns the answers until they are taken.
// Threads:   one, the node's. done may end this.
// Errors:    told to `done`, once: a source's own, kInvalidArgument from what it sent, or what
//            `take` says. A source that has no room to prepare more is asked again when the others
//            have answered.
// Source:    steps 4 and 5 of an epoch change.
#ifndef RING_NODE_RECOVERY_PIECE_FETCH_H_
#define RING_NODE_RECOVERY_PIECE_FETCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/node/control/control_port.h"
#include "ring/recovery/fetch_message.h"

namespace ring::node {

class PieceFetch {
 public:
  // A source queues what it answers: of all that take over from it, this has room there.
  static constexpr std::uint32_t kWindow = 16;

  struct Thing {
    NodeId source;
    recovery::FetchRequest request;  // but for id and piece
  };
  // Sends the request; done: once, later, with the body of the answer.
  using Send =
      std::function<void(NodeId source, const recovery::FetchRequest& request, ControlReply done)>;
  // The next piece of a thing, by its place; number from 0.
  using Take = std::function<absl::Status(std::size_t thing, std::uint32_t number,
                                          absl::string_view piece, bool last)>;
  // The source refused a thing. True: it is asked again, by the request as it was changed.
  using Refused =
      std::function<bool(std::size_t thing, const absl::Status&, recovery::FetchRequest* request)>;
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  PieceFetch(Send send, std::vector<Thing> things, Take take, Refused refused, Done done);

  void Start();

 private:
  struct Progress {
    Thing thing;
    bool began = false;       // the first piece has come
    std::uint32_t count = 0;  // of its pieces; 0: not known yet
    std::uint32_t asked = 0;
    std::uint32_t taken = 0;
    std::map<std::uint32_t, absl::StatusOr<std::string>> here;  // answers, by piece
  };

  void Pump();
  void Ask(std::size_t index, std::uint32_t piece);
  void OnAnswer(std::size_t index, std::uint32_t piece, absl::StatusOr<std::string> bytes);
  absl::Status TakeAll();
  static absl::Status Learn(Progress& one, std::uint32_t piece, absl::string_view bytes);
  void End(const absl::Status& status);

  Send send_;
  std::vector<Progress> things_;
  Take take_;
  Refused refused_;
  Done done_;
  std::size_t next_ = 0;  // to be taken
  std::uint32_t window_ = kWindow;
  std::uint32_t under_way_ = 0;
  bool over_ = false;
  std::shared_ptr<bool> alive_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_PIECE_FETCH_H_
