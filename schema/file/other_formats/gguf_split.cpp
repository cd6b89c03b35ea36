#include "schema/file/other_formats/gguf_split.h"

#include <fmt/core.h>

#include <optional>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxParts = 65535;  // the metadata value has 16 bits
constexpr const char *kNumber = "split.no", *kCount = "split.count", *kTensors = "split.tensors.count";

std::optional<int64_t> integer(const Gguf& file, const char* name) {
  const auto at = file.metadata.find(name);
  if (at == file.metadata.end()) return std::nullopt;
  const int64_t* number = std::get_if<int64_t>(&at->second);
  if (!number || *number < 0) fail("its metadata '{}' are no number of parts or tensors", name);
  return *number;
}

// Removes "-of-00003" from the end of `text` (for `before` = "-of-") and returns the number.
std::optional<int64_t> take_number(std::string& text, std::string_view before) {
  constexpr size_t kDigits = 5;
  if (text.size() < before.size() + kDigits) return std::nullopt;
  const size_t start = text.size() - kDigits - before.size();
  const std::string digits = text.substr(text.size() - kDigits);
  if (text.compare(start, before.size(), before) != 0 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  text.resize(start);
  return parse_number<int64_t>(digits);
}

// The paths of the files of one model. File names count them from 1, metadata from 0.
class PartNames {
 public:
  // `path` is the path of one of the files.
  PartNames(const fs::path& path, int64_t count)
      : folder_(path.parent_path()),
        stem_(path.stem().string()),
        ending_(path.extension().string()),
        count_(count) {
    const auto named_count = take_number(stem_, "-of-"), number = take_number(stem_, "-");
    if (!named_count || !number)
      fail(
          "it is one of {} parts of a model, and its name does not say where the others are: give the parts "
          "the names that they were made with, as 'model-00001-of-{:05}.gguf'",
          count, count);
    if (*named_count != count)
      fail("its name says that it is one of {} parts, and its metadata '{}' say one of {}", *named_count,
           kCount, count);
    number_ = *number - 1;
  }
  int64_t number() const { return number_; }  // the number of the file at `path`, from 0
  fs::path path(int64_t number) const {
    return folder_ / fmt::format("{}-{:05}-of-{:05}{}", stem_, number + 1, count_, ending_);
  }

 private:
  fs::path folder_;
  std::string stem_, ending_;
  int64_t count_, number_ = 0;
};

void check_is_first(const Gguf& first, const PartNames& names, int64_t count) {
  const auto number = integer(first, kNumber);
  if (!number || *number >= count)
    fail("its metadata '{}' do not say which of {} parts it is", kNumber, count);
  if (*number != 0)
    fail("it is part {} of {} of a model, and the first has the metadata: give that, '{}'", *number + 1,
         count, names.path(0).string());
  if (names.number() != 0)
    fail("its name says that it is part {}, and its metadata '{}' say part 1: parts were renamed",
         names.number() + 1, kNumber);
}

void check_is_part(const Gguf& part, int64_t number, int64_t count) {
  if (const auto its_count = integer(part, kCount); its_count != count)
    fail("its metadata '{}' are {}, and those of the first part {}", kCount,
         its_count ? std::to_string(*its_count) : "not there", count);
  if (const auto its_number = integer(part, kNumber); its_number != number)
    fail("its name says that it is part {}, and its metadata '{}' say part {}: parts were renamed",
         number + 1, kNumber, its_number ? std::to_string(*its_number + 1) : "none");
}

// Keeps the mappings of several files alive.
using Owners = std::vector<std::shared_ptr<const void>>;

void add_part(Gguf& whole, Gguf part, Owners& owners) {
  for (auto& [name, tensor] : part.tensors)
    if (!whole.tensors.emplace(name, tensor).second) fail("its tensor '{}' is in an earlier part, too", name);
  for (auto& file : part.files) whole.files.push_back(std::move(file));
  owners.push_back(std::move(part.owner));
}

Gguf read_part(const PartNames& names, int64_t number, int64_t count) {
  const fs::path path = names.path(number);
  if (!fs::exists(path))
    fail("part {} of {} is missing: there is no '{}': all parts must lie in one folder", number + 1, count,
         path.string());
  Gguf part = read_gguf(path);
  with_context([&] { check_is_part(part, number, count); }, [&] { return "in '" + path.string() + "'"; });
  return part;
}

void check_total(const Gguf& whole, std::optional<int64_t> total) {
  if (total && static_cast<uint64_t>(*total) != whole.tensors.size())
    fail("its metadata '{}' say that the model has {} tensors, and there are {}", kTensors, *total,
         whole.tensors.size());
}

Gguf with_other_parts(Gguf whole, const fs::path& path, int64_t count) {
  if (count > kMaxParts) fail("its metadata '{}' are {}, the limit is {}", kCount, count, kMaxParts);
  const PartNames names(path, count);
  check_is_first(whole, names, count);
  Owners owners = {std::move(whole.owner)};
  for (int64_t number = 1; number < count; ++number)
    with_context([&] { add_part(whole, read_part(names, number, count), owners); },
                 [&] { return fmt::format("in part {}", number + 1); });
  whole.owner = std::make_shared<const Owners>(std::move(owners));
  return whole;
}

}  // namespace

Gguf read_gguf_model(const fs::path& path) {
  Gguf file = read_gguf(path);
  return with_context(
      [&] {
        const auto total = integer(file, kTensors);
        if (const auto count = integer(file, kCount); count && *count > 1)
          file = with_other_parts(std::move(file), path, *count);
        check_total(file, total);
        return std::move(file);
      },
      [&] { return path.string(); });
}

}  // namespace genesis
