// ec_offload/eco/coder.h — what is behind a context, an encoder and a decoder of libecoffload.
//
// What:      Coder: the code, its matrix, its calculator and the public struct eco_context; checks
//            of blocks. Encoder and Decoder add their public structs, and the decoder its plans.
// Shape:     Blocks: k data and m code pointers, each to block_size bytes.
// Ownership: a coder owns everything that its public structs point at; blocks are borrowed.
// Threads:   one at a time: who calls holds `mutex` (handles.h).
// Errors:    Create and Plan: kInvalidArgument, kDataLoss. kFailed: bad blocks.
// Cost:      a call computes in the calling thread; nothing is allocated but for a new plan.
#ifndef RING_EC_OFFLOAD_ECO_CODER_H_
#define RING_EC_OFFLOAD_ECO_CODER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/coding_matrix.h"
#include "ec_offload/eco/device_calc.h"
#include "ec_offload/eco/include/ecOffload/eco_common.h"
#include "ec_offload/eco/include/ecOffload/eco_decoder.h"
#include "ec_offload/eco/include/ecOffload/eco_encoder.h"
#include "rdma/fabric.h"
#include "ring/base/sync.h"

namespace ring::ec_offload::eco {

inline constexpr int kFailed = -1;

// The field of a program that names none, as published.
inline constexpr int kPublishedWidth = 4;

struct CodeArguments {
  int k = 0;
  int m = 0;
  bool vandermonde = false;
  int w = kPublishedWidth;
};

struct Blocks {
  std::uint8_t** data = nullptr;
  std::uint8_t** coding = nullptr;
  int data_size = 0;
  int coding_size = 0;
  int block_size = 0;
};

class Coder {
 public:
  explicit Coder(const CodeArguments& code, Matrix coding);
  virtual ~Coder();
  Coder(const Coder&) = delete;
  Coder& operator=(const Coder&) = delete;

  eco_context* context() { return &context_; }
  std::size_t block_count() const { return k_ + m_; }
  void SetCompletion(void* coder, void (*done)(ibv_exp_ec_comp*));
  // A calculator of the program's verbs in the public struct, where there is one.
  void OpenDevice();
  // Whether the program calls from a completion of the calculator.
  bool InCompletion() const { return device_ != nullptr && device_->InCompletion(); }
  // Calls that come after are refused (released).
  std::unique_ptr<DeviceCalc> TakeDevice() { return std::move(device_); }

  // Whether the blocks are what this code has, none of them null.
  bool Fits(const Blocks& blocks) const;
  int Register(const Blocks& blocks);

  Mutex mutex;
  bool released ABSL_GUARDED_BY(mutex) = false;

 protected:
  // Whether block `index`, which is to be written, overlaps no other.
  bool StandsAlone(const Blocks& blocks, std::size_t index) const;
  std::uint8_t* Block(const Blocks& blocks, std::size_t index) const {
    return index < k_ ? blocks.data[index] : blocks.coding[index - k_];
  }

  const std::size_t k_;
  const std::size_t m_;
  const int w_;
  const Matrix coding_;

 private:
  eco_context context_{};
  std::vector<std::uint8_t> encode_matrix_;
  std::vector<int> int_encode_matrix_;
  std::vector<ibv_sge> sges_;
  std::unique_ptr<DeviceCalc> device_;
};

class Encoder final : public Coder {
 public:
  Encoder(const CodeArguments& code, Matrix coding, std::unique_ptr<rdma::Calculator> calculator);
  eco_encoder* handle() { return &handle_; }
  int Encode(const Blocks& blocks) const;

 private:
  eco_encoder handle_{};
  std::unique_ptr<rdma::Calculator> calculator_;
};

class Decoder final : public Coder {
 public:
  Decoder(const CodeArguments& code, Matrix coding);
  eco_decoder* handle() { return &handle_; }
  // Block indices in any order, each once.
  int Generate(absl::Span<const int> erasures);
  int Decode(const Blocks& blocks, absl::Span<const int> erasures);

 private:
  struct Plan {
    std::vector<std::size_t> erasures;  // ascending
    std::vector<std::size_t> survivors;
    std::unique_ptr<rdma::Calculator> calculator;
    Matrix inverse;
    Matrix decode;
  };

  // The plan for the erasures, from the cache or new; null: they cannot be repaired, or are none.
  const Plan* PlanFor(absl::Span<const int> erasures);
  std::unique_ptr<Plan> MakePlan(std::vector<std::size_t> erasures) const;
  void Publish(const Plan& plan);

  eco_decoder handle_{};
  std::vector<int> int_decode_matrix_, int_erasures_, survived_;
  std::vector<std::uint8_t> u8_decode_matrix_, u8_erasures_;
  std::list<std::unique_ptr<Plan>> plans_;  // the latest first
  std::vector<std::size_t> sorted_;         // scratch of PlanFor
};

// A code that exists: w is 4 or 8, k and m at least 1, k + m at most 2^w.
absl::StatusOr<Matrix> MakeCoding(const CodeArguments& code);
absl::StatusOr<std::unique_ptr<Coder>> MakeCoder(const CodeArguments& code);
absl::StatusOr<std::unique_ptr<Encoder>> MakeEncoder(const CodeArguments& code);
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const CodeArguments& code);

}  // namespace ring::ec_offload::eco

#endif  // RING_EC_OFFLOAD_ECO_CODER_H_
