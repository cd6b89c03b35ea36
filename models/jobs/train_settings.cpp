#include "models/jobs/train_settings.h"

#include <fmt/core.h>

namespace genesis::jobs {

std::string TrainJob::data_order() const {
  return fmt::format("--batch {} --seq {} --seed {}{}{}{}", source.batch_size, source.sequence_length,
                     source.seed, source.shuffle ? "" : " --no-shuffle", text.order(),
                     image.empty() ? "" : " --image " + image);
}

}  // namespace genesis::jobs
