#include "backends/cuda/ranks/rank_texts.h"

#include <algorithm>
#include <cstring>

namespace genesis::cuda {
namespace {

constexpr int64_t kHead = sizeof(int64_t);
constexpr int64_t kFirstSlotBytes = 1024;

}  // namespace

RankTexts::RankTexts(RankGroup& group, int device) : group_(group), device_(device), stream_(make_stream()) {
  make_slots(kFirstSlotBytes);
}

std::vector<std::string> RankTexts::gather(const std::string& mine) {
  exchange(mine);
  int64_t longest = 0;
  for (int rank = 0; rank < group_.size(); ++rank) longest = std::max(longest, length_of(rank));
  if (longest > slot_ - kHead) {
    make_slots(kHead + longest);
    exchange(mine);
  }
  std::vector<std::string> texts;
  for (int rank = 0; rank < group_.size(); ++rank)
    texts.emplace_back(reinterpret_cast<const char*>(at(rank) + kHead), static_cast<size_t>(length_of(rank)));
  return texts;
}

void RankTexts::make_slots(int64_t bytes) {
  slot_ = bytes;
  host_ = allocate_pinned(slot_ * group_.size());
  device_memory_ = allocate(device_, slot_ * group_.size());
}

int64_t RankTexts::length_of(int rank) const {
  int64_t length;
  std::memcpy(&length, at(rank), sizeof length);
  return length;
}

void RankTexts::exchange(const std::string& mine) {
  const auto length = static_cast<int64_t>(mine.size());
  const auto bytes = static_cast<size_t>(slot_), all = bytes * static_cast<size_t>(group_.size());
  std::byte* const own = at(group_.rank());
  std::memcpy(own, &length, sizeof length);
  std::memcpy(own + kHead, mine.data(), std::min(mine.size(), bytes - kHead));
  std::byte* const there = device_memory_.get() + group_.rank() * slot_;
  check(cudaMemcpyAsync(there, own, bytes, cudaMemcpyHostToDevice, stream_.get()), "sending a text");
  const Exchange slots{there, device_memory_.get(), slot_, DType::u8};
  group_.all_gather({&slots, 1}, stream_.get());
  check(cudaMemcpyAsync(host_.get(), device_memory_.get(), all, cudaMemcpyDeviceToHost, stream_.get()),
        "receiving texts");
  wait_for(stream_.get(), "exchanging texts between ranks");
}

}  // namespace genesis::cuda
