// Tests that pages of a GPU's memory move between addresses, and what is left when the driver refuses to map one. Skipped without a GPU.
#include <cuda_runtime_api.h>

#include <array>

#include "executor/runtime/page_mapper.h"
#include "schema/core/error.h"
#include "tests/cuda/on_gpu.h"

namespace genesis {
namespace {

using namespace testing;
using Page = PageMapper::Page;

// Addresses of four pages and three pages for them.
class Pages : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    mapper_ = open_page_mapper("cuda:0", nullptr);
    at_ = mapper_->reserve(4 * bytes());
    for (Page& page : pages_) page = mapper_->make_page();
  }
  void TearDown() override {
    if (!mapper_) return;
    for (const Page page : pages_) mapper_->free_page(page);
    mapper_->release(at_, 4 * bytes());
  }

  int64_t bytes() const { return mapper_->page_bytes(); }
  std::byte* address(int64_t number) const { return at_ + number * bytes(); }
  void map(int64_t number, Page page) { mapper_->map(address(number), std::array{page}); }
  void write(int64_t number, int value) {
    ASSERT_EQ(cudaMemset(address(number), value, static_cast<size_t>(bytes())), cudaSuccess);
  }
  // Returns the last byte of the page that is mapped there.
  int read(int64_t number) {
    std::byte last{};
    EXPECT_EQ(cudaMemcpy(&last, address(number + 1) - 1, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return static_cast<int>(last);
  }

  std::shared_ptr<PageMapper> mapper_;
  std::byte* at_ = nullptr;
  std::array<Page, 3> pages_ = {};
};

TEST_F(Pages, KeepTheirContentsAtAnotherAddress) {
  mapper_->map(address(0), pages_);
  for (int i = 0; i < 3; ++i) write(i, 10 + i);
  mapper_->unmap(address(0), 3);
  map(3, pages_[1]);
  map(0, pages_[2]);
  EXPECT_EQ(read(3), 11);
  EXPECT_EQ(read(0), 12);
  mapper_->unmap(address(3), 1);
  mapper_->unmap(address(0), 1);
}

TEST_F(Pages, AreReadAtSeveralAddressesAtOnce) {
  for (int i = 0; i < 4; ++i) map(i, pages_[0]);
  write(1, 77);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read(i), 77) << i;
  mapper_->clear(address(2), bytes());
  mapper_->wait();
  EXPECT_EQ(read(0), 0);
  mapper_->unmap(address(0), 4);
}

// A row of the cache is taken back only as a whole, so a mapping that fails halfway must not leave its first pages behind.
TEST_F(Pages, AreAllLeftUnmappedWhereOneCannotBeMapped) {
  map(1, pages_[0]);
  write(1, 33);
  EXPECT_THROW(mapper_->map(address(0), std::array{pages_[1], pages_[2]}), Error);
  EXPECT_EQ(read(1), 33);
  map(0, pages_[1]);
  write(0, 44);
  EXPECT_EQ(read(0), 44);
  EXPECT_EQ(read(1), 33);
  mapper_->unmap(address(0), 2);
}

}  // namespace
}  // namespace genesis
