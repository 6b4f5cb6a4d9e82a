// tools/ring-bench/ec_coder.h — one way to encode and decode a stripe, to be measured.
//
// What:      EcCoder: Encode and Decode do the same work `count` times, and return when all of it
//            is done. Of ISA-L (bare ec_encode_data), of libecoffload, of the experimental verbs in
//            each of their three manners, and of Jerasure, which is loaded when asked for.
// Ownership: a coder borrows code and stripe; the device owns regions of the stripe, and outlives
//            the coders on it.
// Threads:   one caller; a coder of kThread has the verbs' thread, which tells completions.
// Errors:    what the interface refuses: kInternal with its name and value. Jerasure's libraries
//            are not there: kNotFound naming the file.
#ifndef RING_TOOLS_RING_BENCH_EC_CODER_H_
#define RING_TOOLS_RING_BENCH_EC_CODER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/ring-bench/ec_stripe.h"

namespace ring::bench {

class EcCoder {
 public:
  virtual ~EcCoder() = default;
  virtual absl::Status Encode(int count) = 0;
  virtual absl::Status Decode(int count) = 0;
};

// A device of libibverbs, or the software device where there is none.
class EcDevice {
 public:
  virtual ~EcDevice() = default;
  virtual std::string name() const = 0;
};

enum class EcManner : std::uint8_t {
  kSync,
  kThread,  // asynchronous; the context's thread tells completions
  kPoll,    // asynchronous; the caller polls
};

// ISA-L knows w = 8 only: REQUIRES code.w == 8.
std::unique_ptr<EcCoder> MakeIsalCoder(const EcCode& code, EcStripe* stripe);
absl::StatusOr<std::unique_ptr<EcCoder>> MakeEcoCoder(const EcCode& code, EcStripe* stripe);
absl::StatusOr<std::unique_ptr<EcCoder>> MakeJerasureCoder(const EcCode& code, EcStripe* stripe);
absl::StatusOr<std::unique_ptr<EcDevice>> OpenEcDevice();
// Keeps up to max_inflight operations under way where it is asynchronous.
absl::StatusOr<std::unique_ptr<EcCoder>> MakeVerbsCoder(const EcCode& code, EcStripe* stripe,
                                                        EcDevice* device, EcManner manner,
                                                        int max_inflight);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_EC_CODER_H_
