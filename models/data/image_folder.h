// A folder of classes as training data, as torchvision's ImageFolder reads it: FOLDER/CLASS/.../picture.jpg.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "models/data/sources.h"
#include "models/images/image_input.h"

namespace genesis::data {

struct ImageFolder {
  std::vector<std::string> classes;  // names of the folders, sorted by their bytes
  std::vector<std::filesystem::path> files;
  std::vector<int64_t> labels;  // the class of each file
};

// Returns true for a folder that has a folder with a picture in it, at any depth.
bool is_image_folder(const std::filesystem::path& folder);

// Lists the pictures (.jpg, .jpeg, .png), class by class and sorted by name. Hidden files and folders are left out. Throws Error for
// a folder that cannot be read, and for a class without pictures.
ImageFolder list_image_folder(const std::filesystem::path& folder);

// Numbers the classes as `labels` does. Throws Error that names a class which `labels` lacks.
void number_classes(ImageFolder& folder, const std::vector<std::string>& labels);

// Leaves out the pictures that cannot be read, which takes a pass over all of them; returns messages, one for each.
std::vector<std::string> leave_out_bad_pictures(ImageFolder& folder);

// Says how the batches of a folder are made.
struct ImageBatches {
  images::ImageInput input;
  std::string target;  // name of the input i64[batch] with the classes
  images::ImageSettings settings = {};
};
// Serves batches of pictures and their classes, decoded on all cores. With `options.fill_last`, as evaluations need it, pictures are
// not augmented, every picture comes once, and the last batch is filled with rows whose target is ignored. Throws Error if there are
// fewer pictures than one batch takes; batch() throws Error that names a picture which cannot be read.
std::unique_ptr<BatchSource> image_source(ImageFolder folder, const ImageBatches& batches,
                                          const SourceOptions& options);

}  // namespace genesis::data
