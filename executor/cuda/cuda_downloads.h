// Copies of a GPU's memory to the host beside its runs, in one of three ways:
// - The device has memory left: the bytes are first copied on the device, between two runs (4 GB in a few ms), and cross the bus on a
//   stream of their own while further runs go on.
// - It has none left: they cross the bus between two runs, which takes as long as the bus does.
// - The system gives no pinned memory, which both need: they go through small pinned pieces between two runs. That is the slowest
//   way, and a warning says so.
// Used by cuda_device.cpp.
#pragma once

#include "executor/cuda/cuda_copies.h"
#include "executor/runtime/downloads.h"

namespace genesis {

class CudaDownloads final : public Downloads {
 public:
  // `runs` is the stream of the device's runs, `copies` goes through it; both must outlive this.
  CudaDownloads(int device, cudaStream_t runs, CudaCopies& copies);
  ~CudaDownloads() override;

  bool reserve(int64_t bytes, int64_t more) override;
  void take(const std::vector<MemoryPart>& parts) override;
  const std::byte* wait() override;

 private:
  bool stage(int64_t bytes);
  void copy_to_host(int64_t offset, const std::byte* from, int64_t bytes, cudaStream_t stream);
  void make_current() const;

  int device_;
  cudaStream_t runs_;
  CudaCopies& copies_;
  std::shared_ptr<std::byte> host_;
  std::shared_ptr<const void> pinned_;  // keeps `host_` pinned; null: it is not pinned
  int64_t room_ = -1;                   // bytes of `host_`
  std::shared_ptr<std::byte> staging_;  // on the device
  int64_t staging_room_ = 0;
  cuda::Stream side_;
  cuda::Event taken_;    // when the copies on the device are complete
  cuda::Event arrived_;  // when those on the host are
};

}  // namespace genesis
