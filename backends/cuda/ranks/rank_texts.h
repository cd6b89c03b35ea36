// Short texts between the ranks of a group of GPUs, through memory of the device: how they tell each other what no other
// link carries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/collectives.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {

// A slot for each rank, in which a text lies behind its length. Texts that are longer than a slot make all ranks take longer
// slots and exchange once more.
class RankTexts {
 public:
  // `group` outlives it.
  RankTexts(RankGroup& group, int device);

  // Every rank's text, in the order of ranks; all ranks of the group call it. After a failure of the group, what comes back
  // is of no use.
  std::vector<std::string> gather(const std::string& mine);

 private:
  void make_slots(int64_t bytes);
  std::byte* at(int rank) const { return host_.get() + rank * slot_; }
  int64_t length_of(int rank) const;
  void exchange(const std::string& mine);

  RankGroup& group_;
  int device_;
  Stream stream_;
  int64_t slot_ = 0;
  std::shared_ptr<std::byte> host_, device_memory_;
};

}  // namespace genesis::cuda
