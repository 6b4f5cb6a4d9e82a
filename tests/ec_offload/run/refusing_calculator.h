// tests/ec_offload/run/refusing_calculator.h — a calculator that refuses when it is told to.
//
// What:      RefusingCalculator does what the one below does, unless `refuses` is true.
// Errors:    a refusal, as Calculator::Run tells it.
// Threads:   Run in the NIC's; `refuses` may be set from another.
#ifndef RING_TESTS_EC_OFFLOAD_RUN_REFUSING_CALCULATOR_H_
#define RING_TESTS_EC_OFFLOAD_RUN_REFUSING_CALCULATOR_H_

#include <atomic>
#include <memory>
#include <utility>

#include "rdma/fabric.h"

namespace ring::ec_offload {

class RefusingCalculator final : public rdma::Calculator {
 public:
  RefusingCalculator(std::unique_ptr<rdma::Calculator> below, const std::atomic<bool>* refuses)
      : below_(std::move(below)), refuses_(refuses) {}
  std::size_t input_count() const override { return below_->input_count(); }
  std::size_t output_count() const override { return below_->output_count(); }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override {
    return !*refuses_ && below_->Run(inputs, outputs, length, crcs);
  }

 private:
  std::unique_ptr<rdma::Calculator> below_;
  const std::atomic<bool>* refuses_;
};

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_RUN_REFUSING_CALCULATOR_H_
