// Boxes of images and of matrices that the TMA engine of Hopper chips copies between memory and shared memory, in addition to the
// copies of hopper.h.
#pragma once

#include "backends/cuda/hopper/hopper.h"

namespace genesis::cuda {

// Images of 16-bit elements with the channels last, and boxes of up to 256 images, rows, columns and channels, which are dense in
// shared memory in this order. `channels` and `box_channels` are multiples of 8, and `data` of 16 bytes.
struct ImagesInBoxes {
  const void* data = nullptr;
  int64_t images = 0, rows = 0, columns = 0, channels = 0;
  int box_images = 0, box_rows = 0, box_columns = 0, box_channels = 0;
};

// Returns false if the driver refuses (tensor_map.cpp).
bool make_images_map(const ImagesInBoxes& images, CUtensorMap& map);

}  // namespace genesis::cuda

#ifdef GENESIS_HOPPER

namespace genesis::cuda::hopper {

// Copies the box that begins with `channel` of the pixel (row, column) of `image`, and reports its bytes to the barrier. Pixels
// outside of the image are zeros; a coordinate may be negative.
__device__ __forceinline__ void copy_pixels(uint32_t to, const CUtensorMap* map, uint32_t barrier,
                                            int channel, int column, int row, int image) {
  copy_rows(to, map, barrier, column, row, image, channel);
}

// Makes what this thread has written to shared memory visible to the TMA engine.
__device__ __forceinline__ void let_copies_see_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Copies a box of shared memory to (column, row) of the matrix; elements outside of the matrix are not written.
__device__ __forceinline__ void store_box(const CUtensorMap* map, uint32_t from, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(column), "r"(row)
               : "memory");
}
// Closes a group of this thread's stores.
__device__ __forceinline__ void close_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all of this thread's groups except the last kLeft have read shared memory.
template <int kLeft>
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

}  // namespace genesis::cuda::hopper

#endif
