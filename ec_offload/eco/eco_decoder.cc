// The C functions of eco_decoder.h.
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "ec_offload/eco/coder.h"
#include "ec_offload/eco/handles.h"

namespace eco = ring::ec_offload::eco;

namespace {

// None: a negative size, or no list where one is needed.
std::optional<absl::Span<const int>> ErasureList(const int* erasures, int size) {
  if (size < 0 || (erasures == nullptr && size != 0)) return std::nullopt;
  return absl::MakeConstSpan(erasures, static_cast<std::size_t>(size));
}

}  // namespace

eco_decoder* mlx_eco_decoder_init(int k, int m, int use_vandermonde_matrix) {
  return mlx_eco_decoder_init_w(k, m, use_vandermonde_matrix, eco::kPublishedWidth);
}

eco_decoder* mlx_eco_decoder_init_w(int k, int m, int use_vandermonde_matrix, int w) {
  return eco::NewHandle([&]() -> eco_decoder* {
    auto made = eco::MakeDecoder({k, m, use_vandermonde_matrix != 0, w});
    if (!made.ok()) return nullptr;
    std::shared_ptr<eco::Decoder> decoder = *std::move(made);
    eco_decoder* const handle = decoder->handle();
    decoder->SetCompletion(handle, nullptr);
    eco::AddHandle(handle, eco::Kind::kDecoder, std::move(decoder));
    return handle;
  });
}

int mlx_eco_decoder_register(eco_decoder* eco_decoder, uint8_t** data, uint8_t** coding,
                             int data_size, int coding_size, int block_size) {
  return eco::CallCoder<eco::Coder>(eco_decoder, eco::Kind::kDecoder, [&](eco::Coder& coder) {
    return coder.Register({data, coding, data_size, coding_size, block_size});
  });
}

int mlx_eco_decoder_generate_decode_matrix(eco_decoder* eco_decoder, int* erasures,
                                           int erasures_size) {
  return eco::CallCoder<eco::Decoder>(eco_decoder, eco::Kind::kDecoder, [&](eco::Decoder& decoder) {
    const auto list = ErasureList(erasures, erasures_size);
    return list.has_value() ? decoder.Generate(*list) : eco::kFailed;
  });
}

int mlx_eco_decoder_decode(eco_decoder* eco_decoder, uint8_t** data, uint8_t** coding,
                           int data_size, int coding_size, int block_size, int* erasures,
                           int erasures_size) {
  return eco::CallCoder<eco::Decoder>(eco_decoder, eco::Kind::kDecoder, [&](eco::Decoder& decoder) {
    const auto list = ErasureList(erasures, erasures_size);
    if (!list.has_value()) return eco::kFailed;
    return decoder.Decode({data, coding, data_size, coding_size, block_size}, *list);
  });
}

int mlx_eco_decoder_release(eco_decoder* eco_decoder) {
  return eco::ReleaseHandle(eco_decoder, eco::Kind::kDecoder);
}
