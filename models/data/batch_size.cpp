#include "models/data/batch_size.h"

#include "executor/runtime/host_memory.h"
#include "schema/core/checked_size.h"
#include "schema/core/error.h"

namespace genesis::data {

int64_t tokens_in_batch(int64_t batch_size, int64_t sequence_length, int arrays) {
  if (batch_size < 1 || sequence_length < 1)
    fail("batch size {} and sequence length {} must be positive", batch_size, sequence_length);
  return with_context(
      [&] {
        const CheckedSize tokens = CheckedSize(batch_size) * sequence_length,
                          bytes = tokens * arrays * int64_t{sizeof(int64_t)};
        check_host_has(bytes.value(), "a batch");
        return tokens.value();
      },
      [&] {
        return fmt::format("in batches (--batch) of {} rows of {} tokens (--seq)", batch_size,
                           sequence_length);
      });
}

}  // namespace genesis::data
