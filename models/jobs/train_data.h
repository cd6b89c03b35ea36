// Opens the data of a training: text (as tokens of the model's tokenizer, or as bytes without one), conversations (formatted by
// the model's chat template), pictures in folders of classes (image_data.h), and arrays.
#pragma once

#include <string>
#include <vector>

#include "models/data/sources.h"
#include "models/jobs/data_request.h"
#include "schema/graph/model.h"

namespace genesis::jobs {

// Warns if texts have more `tokens` than the model was made for, as far as the model says so.
void warn_of_positions(const Model& model, int64_t tokens);

// Opens the data. `names` are files, NAME=FILE.npy, folders of text or conversations, or one folder of pictures. Throws
// SettingError for settings of text that do nothing with such data, and Error for data that cannot be read, or has tokens that
// the model has no rows for.
TrainData open_train_data(const std::vector<std::string>& names, const Model& model,
                          const data::SourceOptions& options, const DataRequest& request);

}  // namespace genesis::jobs
