/*
 * ec_verbs_example DEVICE: asks a verbs device whether it calculates erasure codes, encodes
 * 4 data blocks to 2 code blocks, loses one of each, and decodes them. Written as for MLNX_OFED;
 * built with  cc ec_verbs_example.c $(pkg-config --cflags --libs ring-ec-verbs).
 */
#include <infiniband/verbs.h>
#include <string.h>

#define K 4
#define M 2
#define BLOCK 4096

/* GF(2^4), two symbols a byte: K rows x M columns, 1 / (j xor (M + i)). */
static uint8_t encode_matrix[K * M] = {9, 14, 14, 9, 13, 11, 11, 13};

struct wait {
  struct ibv_exp_ec_comp comp;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  int over;
};

static void on_done(struct ibv_exp_ec_comp *comp) {
  struct wait *wait = (struct wait *)((char *)comp - offsetof(struct wait, comp));
  pthread_mutex_lock(&wait->mutex);
  wait->over = 1;
  pthread_cond_signal(&wait->cond);
  pthread_mutex_unlock(&wait->mutex);
}

static struct ibv_context *open_by_name(const char *name) {
  struct ibv_context *context = NULL;
  struct ibv_device **list = ibv_get_device_list(NULL);
  int i;
  if (!list) return NULL;
  for (i = 0; list[i] && !context; i++) {
    if (!strcmp(ibv_get_device_name(list[i]), name)) context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  return context;
}

static int has_offload(struct ibv_context *context) {
  struct ibv_exp_device_attr attr;
  memset(&attr, 0, sizeof(attr));
  attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EC_CAPS;
  if (ibv_exp_query_device(context, &attr)) return 0;
  printf("up to %u data blocks, %u calculations under way\n",
         attr.ec_caps.max_ec_data_vector_count, attr.ec_caps.max_ec_calc_inflight_calcs);
  return (attr.exp_device_cap_flags & IBV_EXP_DEVICE_EC_OFFLOAD) != 0;
}

static int encode(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *mem) {
  struct wait wait;
  memset(&wait, 0, sizeof(wait));
  wait.comp.done = on_done;
  pthread_mutex_init(&wait.mutex, NULL);
  pthread_cond_init(&wait.cond, NULL);
  if (ibv_exp_ec_encode_async(calc, mem, &wait.comp)) return 1;
  pthread_mutex_lock(&wait.mutex);
  while (!wait.over) pthread_cond_wait(&wait.cond, &wait.mutex);
  pthread_mutex_unlock(&wait.mutex);
  pthread_cond_destroy(&wait.cond);
  pthread_mutex_destroy(&wait.mutex);
  return wait.comp.status != IBV_EXP_EC_CALC_SUCCESS;
}

/* Data block 0 and code block 1 from the blocks 1, 2, 3 and 4: 4 rows x 2 columns. */
static int decode(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *mem) {
  uint8_t erasures[K + M] = {1, 0, 0, 0, 0, 1};
  /* Columns: d0 = (c0 + g10 d1 + g20 d2 + g30 d3) / g00, then c1 with that d0 put in. */
  uint8_t matrix[K * 2] = {15, 12, 9, 12, 5, 14, 2, 15};
  return ibv_exp_ec_decode_sync(calc, mem, erasures, matrix);
}

int main(int argc, char **argv) {
  static uint8_t blocks[(K + M) * BLOCK], copy[(K + M) * BLOCK];
  struct ibv_exp_ec_calc_init_attr attr;
  struct ibv_exp_ec_mem mem;
  struct ibv_sge sges[K + M];
  struct ibv_exp_ec_calc *calc;
  struct ibv_context *context = argc == 2 ? open_by_name(argv[1]) : NULL;
  struct ibv_pd *pd;
  struct ibv_mr *mr;
  int i, failed;

  if (!context || !has_offload(context)) {
    fprintf(stderr, "usage: %s DEVICE (with EC offload)\n", argv[0]);
    exit(1);
  }
  pd = ibv_alloc_pd(context);
  mr = ibv_reg_mr(pd, blocks, sizeof(blocks), IBV_ACCESS_LOCAL_WRITE);
  memset(&attr, 0, sizeof(attr));
  attr.comp_mask = IBV_EXP_EC_CALC_ATTR_MAX_INFLIGHT | IBV_EXP_EC_CALC_ATTR_K |
                   IBV_EXP_EC_CALC_ATTR_M | IBV_EXP_EC_CALC_ATTR_W |
                   IBV_EXP_EC_CALC_ATTR_MAX_DATA_SGE | IBV_EXP_EC_CALC_ATTR_MAX_CODE_SGE |
                   IBV_EXP_EC_CALC_ATTR_ENCODE_MAT | IBV_EXP_EC_CALC_ATTR_AFFINITY |
                   IBV_EXP_EC_CALC_ATTR_POLLING;
  attr.max_inflight_calcs = 1;
  attr.k = attr.max_data_sge = K;
  attr.m = attr.max_code_sge = M;
  attr.w = 4;
  attr.encode_matrix = encode_matrix;
  calc = pd && mr ? ibv_exp_alloc_ec_calc(pd, &attr) : NULL;
  if (!calc) {
    perror("ibv_exp_alloc_ec_calc");
    exit(1);
  }

  for (i = 0; i < K * BLOCK; i++) blocks[i] = (uint8_t)(i * 7 + i / 251);
  for (i = 0; i < K + M; i++) {
    sges[i].addr = (uintptr_t)blocks + (size_t)i * BLOCK;
    sges[i].length = BLOCK;
    sges[i].lkey = mr->lkey;
  }
  mem.data_blocks = sges;
  mem.num_data_sge = K;
  mem.code_blocks = sges + K;
  mem.num_code_sge = M;
  mem.block_size = BLOCK;

  failed = encode(calc, &mem);
  memcpy(copy, blocks, sizeof(blocks));
  memset(blocks, 0xee, BLOCK);
  memset(blocks + (K + M - 1) * BLOCK, 0xee, BLOCK);
  failed |= decode(calc, &mem);
  failed |= memcmp(blocks, copy, sizeof(blocks)) != 0;
  printf("%s\n", failed ? "the blocks differ" : "encoded and decoded");

  ibv_exp_dealloc_ec_calc(calc);
  ibv_dereg_mr(mr);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  return failed;
}
