// Jerasure and GF-Complete, as far as they are installed: no header and no library of theirs is
// needed to build or to run the rest.
#include <dlfcn.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/ring-bench/ec_coder.h"

namespace ring::bench {
namespace {

// gf_complete.h's struct gf; members that are not called are plain pointers.
struct GfField {
  void* multiply;
  void* divide;
  void* inverse;
  void (*multiply_region)(GfField* field, void* from, void* to, std::uint32_t factor, int size,
                          int add);
  void* extract_word;
  void* scratch;
};

struct JerasureCalls {
  void (*encode)(int k, int m, int w, int* matrix, char** data, char** coding, int size) = nullptr;
  int (*decode)(int k, int m, int w, int* matrix, int row_k_ones, int* erasures, char** data,
                char** coding, int size) = nullptr;
  int (*init_field)(GfField* field, int w) = nullptr;
  int (*free_field)(GfField* field, int recursive) = nullptr;
};

template <class Call>
absl::Status Find(const char* file, const char* name, Call* call) {
  // Never closed: it stays until the process ends.
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("Jerasure is not there: ", file, " with ", name, " (Debian: libjerasure2)"));
  }
  *call = reinterpret_cast<Call>(found);
  return absl::OkStatus();
}

std::vector<int> Integers(const ec_offload::Matrix& matrix) {
  return {matrix.elements().begin(), matrix.elements().end()};
}

// w = 8 by jerasure_matrix_encode and _decode, of which the second makes its matrix in each call;
// w = 4, which they refuse, by GF-Complete's region multiply and a matrix made before.
class JerasureCoder final : public EcCoder {
 public:
  JerasureCoder(const EcCode& code, EcStripe* stripe, const JerasureCalls& calls)
      : k_(static_cast<int>(code.k)),
        m_(static_cast<int>(code.m)),
        w_(code.w),
        row_k_ones_(code.matrix == EcMatrix::kVandermonde ? 1 : 0),
        size_(static_cast<int>(stripe->block_size())),
        calls_(calls),
        coding_matrix_(Integers(code.coding)),
        decode_matrix_(Integers(code.plan.decode)) {
    for (std::size_t i = 0; i < code.k + code.m; ++i)
      (i < code.k ? data_ : coding_).push_back(reinterpret_cast<char*>(stripe->Block(i)));
    for (const std::size_t index : code.plan.survivors)
      survivors_.push_back(reinterpret_cast<char*>(stripe->Block(index)));
    for (std::size_t i = 0; i < code.erased_count; ++i) {
      erasures_.push_back(static_cast<int>(i));
      erased_.push_back(data_[i]);
    }
    erasures_.push_back(-1);
  }
  ~JerasureCoder() override {
    if (field_.scratch != nullptr) calls_.free_field(&field_, 1);
  }
  JerasureCoder(const JerasureCoder&) = delete;
  JerasureCoder& operator=(const JerasureCoder&) = delete;

  bool MakeField() { return w_ == 8 || calls_.init_field(&field_, w_) != 0; }

  absl::Status Encode(int count) override {
    for (int i = 0; i < count; ++i) {
      if (w_ == 8) {
        calls_.encode(k_, m_, w_, coding_matrix_.data(), data_.data(), coding_.data(), size_);
      } else {
        Multiply(coding_matrix_, data_, coding_);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Decode(int count) override {
    for (int i = 0; i < count; ++i) {
      if (w_ != 8) {
        Multiply(decode_matrix_, survivors_, erased_);
      } else if (const int error =
                     calls_.decode(k_, m_, w_, coding_matrix_.data(), row_k_ones_, erasures_.data(),
                                   data_.data(), coding_.data(), size_);
                 error != 0) {
        return absl::InternalError(absl::StrCat("jerasure_matrix_decode=", error));
      }
    }
    return absl::OkStatus();
  }

 private:
  void Multiply(const std::vector<int>& matrix, const std::vector<char*>& from,
                const std::vector<char*>& to) {
    for (std::size_t o = 0; o < to.size(); ++o) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        field_.multiply_region(&field_, from[i], to[o],
                               static_cast<std::uint32_t>(matrix[o * from.size() + i]), size_,
                               i > 0);
      }
    }
  }

  int k_, m_, w_;
  int row_k_ones_;  // Jerasure's: whether the first parity is the sum of the data
  int size_;
  JerasureCalls calls_;
  GfField field_{};
  std::vector<int> coding_matrix_, decode_matrix_, erasures_;
  std::vector<char*> data_, coding_, survivors_, erased_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EcCoder>> MakeJerasureCoder(const EcCode& code, EcStripe* stripe) {
  constexpr char kJerasure[] = "libJerasure.so.2";
  JerasureCalls calls;
  absl::Status status = Find(kJerasure, "jerasure_matrix_encode", &calls.encode);
  status.Update(Find(kJerasure, "jerasure_matrix_decode", &calls.decode));
  constexpr char kGfComplete[] = "libgf_complete.so.1";
  status.Update(Find(kGfComplete, "gf_init_easy", &calls.init_field));
  status.Update(Find(kGfComplete, "gf_free", &calls.free_field));
  if (!status.ok()) return status;
  auto coder = std::make_unique<JerasureCoder>(code, stripe, calls);
  if (!coder->MakeField()) return absl::InternalError(absl::StrCat("gf_init_easy w=", code.w));
  return coder;
}

}  // namespace ring::bench
