// The C functions of eco_common.h.
#include <memory>
#include <utility>

#include "ec_offload/eco/coder.h"
#include "ec_offload/eco/handles.h"

namespace eco = ring::ec_offload::eco;

eco_context* mlx_eco_init(void* coder, int k, int m, int use_vandermonde_matrix,
                          void (*comp_done_func)(ibv_exp_ec_comp*)) {
  return mlx_eco_init_w(coder, k, m, use_vandermonde_matrix, comp_done_func, eco::kPublishedWidth);
}

eco_context* mlx_eco_init_w(void* coder, int k, int m, int use_vandermonde_matrix,
                            void (*comp_done_func)(ibv_exp_ec_comp*), int w) {
  return eco::NewHandle([&]() -> eco_context* {
    auto made = eco::MakeCoder({k, m, use_vandermonde_matrix != 0, w});
    if (!made.ok()) return nullptr;
    std::shared_ptr<eco::Coder> context = *std::move(made);
    context->SetCompletion(coder, comp_done_func);
    if (comp_done_func != nullptr) context->OpenDevice();
    eco_context* const handle = context->context();
    eco::AddHandle(handle, eco::Kind::kContext, std::move(context));
    return handle;
  });
}

int mlx_eco_register(eco_context* eco_ctx, uint8_t** data, uint8_t** coding, int data_size,
                     int coding_size, int block_size) {
  return eco::CallCoder<eco::Coder>(eco_ctx, eco::Kind::kContext, [&](eco::Coder& coder) {
    return coder.Register({data, coding, data_size, coding_size, block_size});
  });
}

int mlx_eco_release(eco_context* eco_ctx) {
  return eco::ReleaseHandle(eco_ctx, eco::Kind::kContext);
}
