/* As the smallest programs of MLNX_OFED: nothing but verbs_exp.h and string.h is included. */
#include <infiniband/verbs_exp.h>
#include <string.h>

int main(int argc, char *argv[]) {
  struct ibv_exp_device_attr attr;
  struct ibv_device **devices;
  struct ibv_context *context = NULL;
  int count, i, err;

  if (argc < 2) {
    printf("usage: %s <device>\n", argv[0]);
    exit(1);
  }
  devices = ibv_get_device_list(&count);
  if (!devices) exit(1);
  for (i = 0; i < count; ++i) {
    if (strcmp(argv[1], ibv_get_device_name(devices[i])) == 0) {
      context = ibv_open_device(devices[i]);
      break;
    }
  }
  memset(&attr, 0, sizeof(attr));
  attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1;
  err = !context || ibv_exp_query_device(context, &attr) ||
        !(attr.exp_device_cap_flags & IBV_EXP_DEVICE_EC_OFFLOAD) || !(attr.ec_w_mask & (1 << 3));
  printf("device %s: %s\n", argv[1], err ? "no EC offload" : "EC offload is supported");
  ibv_close_device(context);
  ibv_free_device_list(devices);
  exit(err);
}
