// Exchanges short texts between the ranks of a group of GPUs through device memory, for ranks without another link.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/collectives.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {

// Each rank has a slot that holds a text after its length. If a text is longer than a slot, all ranks enlarge the
// slots and exchange once more.
class RankTexts {
 public:
  // `group` outlives this object.
  RankTexts(RankGroup& group, int device);

  // Returns every rank's text, in the order of ranks; all ranks of the group call it. After a failure of the group
  // the result is meaningless.
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
