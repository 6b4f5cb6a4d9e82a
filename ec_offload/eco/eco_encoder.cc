// The C functions of eco_encoder.h.
#include <memory>
#include <utility>

#include "ec_offload/eco/coder.h"
#include "ec_offload/eco/handles.h"

namespace eco = ring::ec_offload::eco;

eco_encoder* mlx_eco_encoder_init(int k, int m, int use_vandermonde_matrix) {
  return mlx_eco_encoder_init_w(k, m, use_vandermonde_matrix, eco::kPublishedWidth);
}

eco_encoder* mlx_eco_encoder_init_w(int k, int m, int use_vandermonde_matrix, int w) {
  return eco::NewHandle([&]() -> eco_encoder* {
    auto made = eco::MakeEncoder({k, m, use_vandermonde_matrix != 0, w});
    if (!made.ok()) return nullptr;
    std::shared_ptr<eco::Encoder> encoder = *std::move(made);
    eco_encoder* const handle = encoder->handle();
    encoder->SetCompletion(handle, nullptr);
    eco::AddHandle(handle, eco::Kind::kEncoder, std::move(encoder));
    return handle;
  });
}

int mlx_eco_encoder_register(eco_encoder* eco_encoder, uint8_t** data, uint8_t** coding,
                             int data_size, int coding_size, int block_size) {
  return eco::CallCoder<eco::Coder>(eco_encoder, eco::Kind::kEncoder, [&](eco::Coder& coder) {
    return coder.Register({data, coding, data_size, coding_size, block_size});
  });
}

int mlx_eco_encoder_encode(eco_encoder* eco_encoder, uint8_t** data, uint8_t** coding,
                           int data_size, int coding_size, int block_size) {
  return eco::CallCoder<eco::Encoder>(eco_encoder, eco::Kind::kEncoder, [&](eco::Encoder& encoder) {
    return encoder.Encode({data, coding, data_size, coding_size, block_size});
  });
}

int mlx_eco_encoder_release(eco_encoder* eco_encoder) {
  return eco::ReleaseHandle(eco_encoder, eco::Kind::kEncoder);
}
