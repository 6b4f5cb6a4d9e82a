// Where the pieces of a client's large value land, and what a device that refuses leaves.
#include "ring/coordinator/landing_places.h"

#include <cstdlib>
#include <set>

#include "gtest/gtest.h"
#include "memgest/log_entry.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::coordinator {
namespace {

TEST(LandingPlaces, PlacesOfAChunkDoNotOverlapAndServeAgain) {
  memgest::TwinDevice device;
  LandingPlaces places(&device);
  std::set<std::byte*> memory;
  LandingPlace last;
  for (int i = 0; i < 33; ++i) {
    ASSERT_OK_AND_ASSIGN(last, places.Take());
    for (const std::byte* other : memory)
      EXPECT_GE(std::abs(last.memory - other), std::ptrdiff_t{memgest::kPayloadSizeMax});
    memory.insert(last.memory);
  }
  EXPECT_EQ(device.reserved, std::size_t{4} << 20);  // 32 of them are a chunk
  places.GiveBack(last);
  ASSERT_OK_AND_ASSIGN(const LandingPlace again, places.Take());
  EXPECT_EQ(again.memory, last.memory);
}

TEST(LandingPlaces, F11WhatCannotBeRegisteredIsGivenBack) {
  memgest::TwinDevice device;
  device.fail_from = 2;  // Allocate is the first call
  LandingPlaces places(&device);
  EXPECT_FALSE(places.Take().ok());
  EXPECT_GT(device.freed, 0u);
  EXPECT_EQ(device.reserved, 0u);
}

}  // namespace
}  // namespace ring::coordinator
