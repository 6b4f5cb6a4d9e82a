// The published headers as C: every function by its published type, every member by its name, and
// the macros. Upstream programs with calls of the same shape compile if this does.
#include <ecOffload/eco_common.h>
#include <ecOffload/eco_decoder.h>
#include <ecOffload/eco_encoder.h>

typedef int register_function(struct eco_context*, uint8_t**, uint8_t**, int, int, int);
typedef int encode_function(struct eco_encoder*, uint8_t**, uint8_t**, int, int, int);
typedef int decoder_register_function(struct eco_decoder*, uint8_t**, uint8_t**, int, int, int);
typedef int decode_function(struct eco_decoder*, uint8_t**, uint8_t**, int, int, int, int*, int);
typedef void done_function(struct ibv_exp_ec_comp*);

static struct eco_context* (*const init)(void*, int, int, int, done_function*) = mlx_eco_init;
static register_function* const register_context = mlx_eco_register;
static int (*const release)(struct eco_context*) = mlx_eco_release;
static struct eco_encoder* (*const encoder_init)(int, int, int) = mlx_eco_encoder_init;
static encode_function* const encoder_register = mlx_eco_encoder_register;
static encode_function* const encode = mlx_eco_encoder_encode;
static int (*const encoder_release)(struct eco_encoder*) = mlx_eco_encoder_release;
static struct eco_decoder* (*const decoder_init)(int, int, int) = mlx_eco_decoder_init;
static decoder_register_function* const decoder_register = mlx_eco_decoder_register;
static int (*const generate)(struct eco_decoder*, int*,
                             int) = mlx_eco_decoder_generate_decode_matrix;
static decode_function* const decode = mlx_eco_decoder_decode;
static int (*const decoder_release)(struct eco_decoder*) = mlx_eco_decoder_release;

static int lists_right(void) {
  uint8_t memory[100];
  struct ibv_mr small = {.addr = memory + 10, .length = 20, .lkey = 1};
  struct ibv_mr large = {.addr = memory, .length = 100, .lkey = 2};
  eco_list head;
  init_eco_list(&head);
  int good = eco_list_get_mr(&head, memory, 1) == NULL;
  good = good && eco_list_add(&head, &large) == 0 && eco_list_add(&head, &small) == 0;
  good = good && eco_list_add(&head, NULL) == -1;
  good = good && eco_list_get_mr(&head, memory + 10, 20) == &small;
  good = good && eco_list_get_mr(&head, memory + 10, 21) == &large;
  good = good && eco_list_get_mr(&head, memory + 1, 100) == NULL;
  good = good && eco_list_get_mr(&head, memory + 99, (size_t)-1) == NULL;
  eco_list_display(&head);
  eco_list_delete_all(&head);  // without verbs in the program nothing is deregistered
  return good && head.next == &head && head.prev == &head;
}

static int calls = 0;
static void done(struct ibv_exp_ec_comp* comp) {
  struct eco_coder_comp* coder_comp = (struct eco_coder_comp*)comp;
  calls += coder_comp->is_remainder_comp;
}

static int looks_right(struct eco_context* ctx, int k, int m) {
  struct eco_coder_comp comp = ctx->alignment_comp;
  return ctx->calc == NULL && ctx->attr.k == k && ctx->attr.m == m && ctx->attr.w == W &&
         ctx->alignment_mem.num_data_sge == k && ctx->mrs_list.next == &ctx->mrs_list &&
         ctx->int_encode_matrix != NULL && ctx->remainder_buffers == NULL &&
         ctx->remainder_mem.num_data_sge == 0 && ctx->remainder_mr == NULL &&
         ctx->async_ref_count == 0 && ctx->data == NULL && ctx->coding == NULL &&
         comp.comp.status == IBV_EXP_EC_CALC_SUCCESS && ctx->remainder_comp.is_remainder_comp == 1;
}

int main(void) {
  uint8_t memory[3][8] = {{1, 2, 3}, {4, 5, 6}, {0}};
  uint8_t* data[] = {memory[0], memory[1]};
  uint8_t* coding[] = {memory[2]};
  int erasures[] = {1};
  struct eco_context* ctx = init(memory, 2, 1, 1, done);
  struct eco_encoder* encoder = encoder_init(2, 1, 1);
  struct eco_decoder* decoder = decoder_init(2, 1, 1);
  if (ctx == NULL || encoder == NULL || decoder == NULL) {
    err_log("init failed\n");
    return 1;
  }
  int good = lists_right() && looks_right(ctx, 2, 1) && looks_right(encoder->eco_ctx, 2, 1) &&
             looks_right(decoder->eco_ctx, 2, 1);
  good = good && register_context(ctx, data, coding, 2, 1, 8) == 0;
  good = good && encoder_register(encoder, data, coding, 2, 1, 8) == 0;
  good = good && decoder_register(decoder, data, coding, 2, 1, 8) == 0;
  good = good && encode(encoder, data, coding, 2, 1, 8) == 0;
  good = good && memory[2][0] == (1 ^ 4) && memory[2][2] == (3 ^ 6);
  memory[1][0] = 0;
  good = good && generate(decoder, erasures, 1) == 0;
  good = good && decode(decoder, data, coding, 2, 1, 8, erasures, 1) == 0 && memory[1][0] == 4;
  good = good && decoder->int_decode_matrix != NULL && decoder->u8_decode_matrix[0] == 1;
  good = good && decoder->u8_erasures[1] == 1 && decoder->int_erasures[1] == 1;
  good = good && decoder->survived[1] == 0 && decoder->survived[0] == 1;
  good = good && release(ctx) == 0 && encoder_release(encoder) == 0;
  good = good && decoder_release(decoder) == 0 && calls == 0;
  dbg_log("good=%d\n", good);
  if (!good) err_log("a call or a member is not as published\n");
  return good ? 0 : 1;
}
