// Opens a folder of classes of pictures as data of a training (models/data/image_folder.h).
#pragma once

#include <string>
#include <vector>

#include "models/data/sources.h"
#include "models/jobs/data_request.h"
#include "schema/graph/model.h"

namespace genesis::jobs {

// Returns true if the data are a folder of classes of pictures. Throws Error for one beside other data.
bool is_image_data(const std::vector<std::string>& names);

// Opens the folder. The entry point of the request has one input of pictures and one of classes, i64[batch]. The classes are
// numbered as the model's labels are, if it knows the names of all of them, and otherwise in the order of their names, which then
// become the model's labels (TrainData::metadata). Throws SettingError for settings of text, and Error for pictures that do not
// fit the model: more classes than it has, or an entry point without such inputs.
TrainData open_image_data(const std::string& folder, const Model& model, const data::SourceOptions& options,
                          const DataRequest& request);

}  // namespace genesis::jobs
