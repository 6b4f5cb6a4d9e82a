// Encodes six blocks, loses three of the nine, and gets them back.
//   cc eco_example.c $(pkg-config --cflags --libs ecoffload)
#include <ecOffload/eco_decoder.h>
#include <ecOffload/eco_encoder.h>
#include <stdio.h>
#include <string.h>

enum { kData = 6, kCode = 3, kSize = 1000 };

static uint8_t blocks[kData + kCode][kSize];
static uint8_t expected[kData + kCode][kSize];

int main(void) {
  uint8_t* data[kData];
  uint8_t* coding[kCode];
  for (int i = 0; i < kData; ++i) {
    data[i] = blocks[i];
    for (int b = 0; b < kSize; ++b) blocks[i][b] = (uint8_t)(31 * i + 7 * b);
  }
  for (int j = 0; j < kCode; ++j) coding[j] = blocks[kData + j];

  // Over GF(2^4), with the Vandermonde matrix; mlx_eco_encoder_init_w(..., 8) is for more blocks.
  struct eco_encoder* encoder = mlx_eco_encoder_init(kData, kCode, 1);
  struct eco_decoder* decoder = mlx_eco_decoder_init(kData, kCode, 1);
  if (encoder == NULL || decoder == NULL) {
    perror("init");
    return 1;
  }
  if (mlx_eco_encoder_encode(encoder, data, coding, kData, kCode, kSize) != 0) {
    fprintf(stderr, "encode failed\n");
    return 1;
  }
  memcpy(expected, blocks, sizeof blocks);

  // Two data blocks and the second code block.
  int erasures[] = {0, 4, kData + 1};
  const int count = (int)(sizeof erasures / sizeof erasures[0]);
  for (int e = 0; e < count; ++e) memset(blocks[erasures[e]], 0, kSize);
  if (mlx_eco_decoder_decode(decoder, data, coding, kData, kCode, kSize, erasures, count) != 0) {
    fprintf(stderr, "decode failed\n");
    return 1;
  }
  const int same = memcmp(expected, blocks, sizeof blocks) == 0;
  printf("%d of %d blocks lost, %s\n", count, kData + kCode, same ? "all back" : "WRONG");

  mlx_eco_decoder_release(decoder);
  mlx_eco_encoder_release(encoder);
  return same ? 0 : 1;
}
