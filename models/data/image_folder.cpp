#include "models/data/image_folder.h"

#include <algorithm>

#include "models/data/batch_size.h"
#include "models/data/permutation.h"
#include "models/images/read_picture.h"
#include "schema/core/parallel.h"
#include "schema/ops/nn/loss.h"

namespace genesis::data {
namespace fs = std::filesystem;
namespace {

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Calls `visit` with what is below the folder and not hidden until it returns false. Throws Error for a folder that cannot be read.
template <class Visit>
void visit_below(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  for (auto at =
           fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink, error);
       !error && at != fs::end(at); at.increment(error)) {
    if (is_hidden(at->path()))
      at.disable_recursion_pending();
    else if (!visit(*at))
      return;
  }
  if (error) fail("cannot list '{}': {}", folder.string(), error.message());
}

bool is_picture(const fs::directory_entry& entry) {
  std::error_code error;  // a broken link is no picture
  return images::has_picture_name(entry.path()) && entry.is_regular_file(error);
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::end(at); at.increment(error)) {
    std::error_code ignored;
    if (!is_hidden(at->path()) && at->is_directory(ignored)) folders.push_back(at->path());
  }
  if (error) fail("cannot list '{}': {}", folder.string(), error.message());
  std::ranges::sort(folders);
  return folders;
}

class ImageSource final : public BatchSource {
 public:
  ImageSource(ImageFolder folder, ImageBatches batches, const SourceOptions& options)
      : folder_(std::move(folder)),
        batches_(std::move(batches)),
        options_(options),
        per_epoch_(options.fill_last ? divided_up(count(), options.batch_size)
                                     : count() / options.batch_size) {}

  NamedTensors batch(int64_t position) override {
    const int64_t epoch = position / per_epoch_, first = position % per_epoch_ * options_.batch_size;
    const Permutation order(count(), options_.seed, static_cast<uint64_t>(epoch));
    const auto number = [&](int64_t i) { return options_.shuffle ? order[first + i] : first + i; };
    std::vector<int64_t> targets;
    for (int64_t i = 0; i < options_.batch_size; ++i)
      targets.push_back(first + i < count() ? folder_.labels[static_cast<size_t>(number(i))]
                                            : kIgnoredTarget);
    const Tensor pictures = images::pictures_tensor(
        batches_.input, batches_.settings, options_.batch_size,
        [&](int64_t i) { return first + i < count() ? picture(number(i), epoch) : images::Picture(); });
    return {{batches_.input.name, pictures}, {batches_.target, Tensor::of<int64_t>(targets)}};
  }

  int64_t items_per_batch() const override { return options_.batch_size; }
  int64_t batches_per_epoch() const override { return per_epoch_; }

 private:
  int64_t count() const { return std::ssize(folder_.files); }

  images::Picture picture(int64_t number, int64_t epoch) const {
    const fs::path& file = folder_.files[static_cast<size_t>(number)];
    const images::Picture picture = images::read_picture(file);
    return with_context(
        [&] {
          if (options_.fill_last) return images::prepared(picture, batches_.input, batches_.settings);
          return images::augmented(picture, batches_.input, batches_.settings, options_.seed,
                                   static_cast<uint32_t>(epoch), static_cast<uint64_t>(number));
        },
        [&] { return "in the picture " + file.string(); });
  }

  const ImageFolder folder_;
  const ImageBatches batches_;
  const SourceOptions options_;
  const int64_t per_epoch_;
};

}  // namespace

bool is_image_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  bool found = false;
  for (const fs::path& one : folders_in(folder)) {
    visit_below(one, [&](const fs::directory_entry& entry) { return !(found = is_picture(entry)); });
    if (found) return true;
  }
  return false;
}

ImageFolder list_image_folder(const fs::path& folder) {
  ImageFolder all;
  for (const fs::path& one : folders_in(folder)) {
    std::vector<fs::path> files;
    visit_below(one, [&](const fs::directory_entry& entry) {
      if (is_picture(entry)) files.push_back(entry.path());
      return true;
    });
    if (files.empty())
      fail("the folder '{}' has no .jpg, .jpeg or .png files: each folder in '{}' is a class of pictures",
           one.string(), folder.string());
    std::ranges::sort(files);
    all.labels.insert(all.labels.end(), files.size(), std::ssize(all.classes));
    all.files.insert(all.files.end(), files.begin(), files.end());
    all.classes.push_back(one.filename().string());
  }
  return all;
}

void number_classes(ImageFolder& folder, const std::vector<std::string>& labels) {
  std::vector<int64_t> numbers;
  for (const std::string& name : folder.classes) {
    const auto at = std::ranges::find(labels, name);
    if (at == labels.end())
      fail("the class '{}' is none of the {} classes that the model knows, such as '{}'", name, labels.size(),
           labels.empty() ? "" : labels[0]);
    numbers.push_back(at - labels.begin());
  }
  for (int64_t& label : folder.labels) label = numbers[static_cast<size_t>(label)];
  folder.classes = labels;
}

std::vector<std::string> leave_out_bad_pictures(ImageFolder& folder) {
  std::vector<std::string> problems(folder.files.size());
  in_parallel(std::ssize(folder.files), 1, [&](int64_t i, int64_t) {
    const auto at = static_cast<size_t>(i);
    try {
      images::read_picture(folder.files[at]);
    } catch (const Error& error) {
      problems[at] = error.message();
    }
  });
  ImageFolder good{.classes = folder.classes, .files = {}, .labels = {}};
  for (size_t i = 0; i < problems.size(); ++i) {
    if (!problems[i].empty()) continue;
    good.files.push_back(folder.files[i]);
    good.labels.push_back(folder.labels[i]);
  }
  folder = std::move(good);
  std::erase(problems, "");
  return problems;
}

std::unique_ptr<BatchSource> image_source(ImageFolder folder, const ImageBatches& batches,
                                          const SourceOptions& options) {
  if (options.batch_size < 1) fail("batch size {} must be positive", options.batch_size);
  const int64_t count = std::ssize(folder.files), needed = options.fill_last ? 1 : options.batch_size;
  if (count < needed)
    fail("there are {} pictures, and one batch takes {}: give more pictures or smaller batches", count,
         needed);
  return std::make_unique<ImageSource>(std::move(folder), batches, options);
}

}  // namespace genesis::data
