#include "models/families.h"

#include <algorithm>

namespace genesis::models {

// Declares one function per file in models/families, named after the file: the build's list of files is the list of families.
#define GENESIS_FAMILY_FILE(name) Family name##_family();
#include "models/family_files.inc"
#undef GENESIS_FAMILY_FILE

namespace {

using nlohmann::json;

template <class Is>
const Family* first(const Is& is) {
  const auto found = std::ranges::find_if(families(), is);
  return found == families().end() ? nullptr : &*found;
}

// Returns "a, b or c", sorted.
std::string listed(std::vector<std::string> names, std::string_view conjunction) {
  std::ranges::sort(names);
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 == names.size() ? " " + std::string(conjunction) + " " : ", ";
    list += names[i];
  }
  return list;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
#define GENESIS_FAMILY_FILE(name) name##_family(),
#include "models/family_files.inc"
#undef GENESIS_FAMILY_FILE
  };
  return all;
}

const Family* find_family(std::string_view name) {
  return first([&](const Family& family) { return family.name == name; });
}

const Family* family_of_config(const json& config) {
  const json type = config.value("model_type", json()), classes = config.value("architectures", json());
  return first([&](const Family& family) {
    if (!family.hugging_face) return false;
    if (!type.is_null()) return type == family.hugging_face->model_type;
    return classes.is_array() &&
           std::ranges::find(classes, json(family.hugging_face->class_name)) != classes.end();
  });
}

const Family* family_of_gguf(std::string_view architecture,
                             const std::function<bool(const std::string& number)>& has) {
  const auto of_mark = [&](bool marked) {
    return first([&](const Family& family) {
      if (!family.gguf ||
          (family.gguf->architecture != architecture && family.gguf->other_architecture != architecture))
        return false;
      const std::string& mark = family.gguf->mark;
      return marked ? !mark.empty() && has && has(mark) : mark.empty();
    });
  };
  const Family* marked = of_mark(true);
  return marked ? marked : of_mark(false);
}

std::string hugging_face_families(std::string_view conjunction) {
  std::vector<std::string> names;
  for (const Family& family : families())
    if (family.hugging_face) names.push_back(family.hugging_face->model_type);
  return listed(names, conjunction);
}

std::string gguf_families(std::string_view conjunction) {
  std::vector<std::string> names;
  for (const Family& family : families())
    if (family.gguf && family.gguf->mark.empty()) names.push_back(family.gguf->architecture);
  return listed(names, conjunction);
}

}  // namespace genesis::models
