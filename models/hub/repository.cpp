#include "models/hub/repository.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "schema/core/setting_error.h"

namespace genesis::hub {
namespace {

using Files = std::vector<std::string>;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_pickle(const std::string& file) {
  for (const char* ending : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
    if (lower(file).ends_with(ending)) return true;
  return false;
}

bool is_word(const std::string& text) {
  return !text.empty() && text[0] != '.' && text.find("..") == std::string::npos &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
             std::string::npos;
}

Files matching(const Files& files, const auto& fits) {
  Files found;
  std::ranges::copy_if(files, std::back_inserter(found), fits);
  return found;
}

// Returns the name without "-00001-of-00003".
std::string without_part(const std::string& file) {
  const size_t of = file.rfind("-of-");
  if (of == std::string::npos || of < 6) return file;
  return file.substr(0, of - 6) + file.substr(std::min(of + 9, file.size()));
}

// Returns true if the name of the file has the quantization as a word: "q4_0" is none of "model-Q4_0_4_4.gguf".
bool has_quantization(const std::string& file, const std::string& wanted) {
  const std::string name = lower(without_part(file)), word = lower(wanted);
  for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins =
        at == 0 || !(std::isalnum(static_cast<unsigned char>(name[at - 1])) || name[at - 1] == '_');
    const bool ends = end == name.size() || name[end] == '.' || name[end] == '-' || name[end] == '/';
    if (begins && ends) return true;
  }
  return false;
}

// Keeps the GGUF files of one model, all its parts in their order.
Files one_model(const RepositoryName& name, Files found, const Files& all) {
  std::set<std::string> models;
  for (const std::string& file : found) models.insert(without_part(file));
  std::ranges::sort(found);
  if (models.size() == 1) return found;
  if (found.empty())
    fail("'{}' has no GGUF file for '{}'; it has: {}", name.id, name.wanted,
         fmt::join(matching(all, is_gguf_name), ", "));
  fail("'{}' has several GGUF files: choose one, such as --hf {}:{}. It has: {}", name.id, name.id,
       *models.begin(), fmt::join(models, ", "));
}

bool is_described(const std::string& file) {
  static const std::set<std::string> kNames = {"config.json",
                                               "generation_config.json",
                                               "tokenizer.json",
                                               "tokenizer_config.json",
                                               "tokenizer.model",
                                               "spiece.model",
                                               "vocab.json",
                                               "vocab.txt",
                                               "merges.txt",
                                               "special_tokens_map.json",
                                               "added_tokens.json",
                                               "chat_template.jinja",
                                               "chat_template.json",
                                               "modules.json",
                                               "config_sentence_transformers.json",
                                               "sentence_bert_config.json",
                                               "1_Pooling/config.json",
                                               "2_Dense/config.json",
                                               "2_Dense/model.safetensors",
                                               "model.safetensors.index.json"};
  return kNames.contains(file);
}

// Returns the weights in the top folder: those of transformers where the makers' own stand beside them.
Files weights_of(const Files& files) {
  const Files all = matching(files, [](const std::string& file) {
    return file.ends_with(".safetensors") && file.find('/') == std::string::npos;
  });
  const Files named = matching(all, [](const std::string& file) { return file.starts_with("model"); });
  return named.empty() ? all : named;
}

}  // namespace

bool is_gguf_name(const std::string& file) {
  return lower(file).ends_with(".gguf") && lower(file).find("mmproj") == std::string::npos;
}

std::string RepositoryName::folder() const {
  const size_t slash = id.find('/');
  return "models--" + id.substr(0, slash) + "--" + id.substr(slash + 1);
}

RepositoryName parse_name(const std::string& name) {
  RepositoryName parsed;
  std::string rest = name;
  if (const size_t colon = rest.find(':'); colon != std::string::npos) {
    parsed.wanted = rest.substr(colon + 1);
    rest.resize(colon);
    if (parsed.wanted.empty()) fail_setting("--hf {}: expected a file or a quantization behind ':'", name);
  }
  if (const size_t at = rest.find('@'); at != std::string::npos) {
    parsed.revision = rest.substr(at + 1);
    rest.resize(at);
  }
  const size_t slash = rest.find('/');
  if (slash == std::string::npos || !is_word(rest.substr(0, slash)) || !is_word(rest.substr(slash + 1)) ||
      !is_word(parsed.revision))
    fail_setting("--hf {}: expected OWNER/NAME, OWNER/NAME@REVISION, or one of them with :FILE or :QUANT",
                 name);
  parsed.id = rest;
  return parsed;
}

void check_file_name(const std::string& file) {
  size_t begin = 0;
  for (size_t slash = 0; slash != std::string::npos; begin = slash + 1) {
    slash = file.find('/', begin);
    const std::string part = file.substr(begin, slash == std::string::npos ? slash : slash - begin);
    if (part.empty() || part == "." || part == ".." || part.find_first_of("\\\n") != std::string::npos ||
        part.find('\0') != std::string::npos)
      fail("the hub names a file '{}', which could lie outside of the model's folder", file);
  }
}

Files choose_files(const RepositoryName& name, const Files& files) {
  const std::string& wanted = name.wanted;
  if (is_pickle(wanted))
    fail(
        "'{}' is a file of Python's pickle, which can contain programs: Genesis fetches none; choose "
        "safetensors or GGUF",
        wanted);
  if (is_gguf_name(wanted)) {
    const auto is_part = [&](const std::string& file) {
      return is_gguf_name(file) && (file == wanted || without_part(file) == without_part(wanted));
    };
    return one_model(name, matching(files, is_part), files);
  }
  if (!wanted.empty())
    return one_model(name,
                     matching(files,
                              [&](const std::string& file) {
                                return is_gguf_name(file) && has_quantization(file, wanted);
                              }),
                     files);
  Files chosen = weights_of(files);
  if (!chosen.empty() && std::ranges::count(files, "config.json") > 0) {
    for (const std::string& file : files)
      if (is_described(file) && std::ranges::count(chosen, file) == 0) chosen.push_back(file);
    return chosen;
  }
  const Files gguf = matching(files, is_gguf_name);
  if (!gguf.empty()) return one_model(name, gguf, files);
  const bool has_pickles = std::ranges::any_of(files, is_pickle);
  fail(
      "'{}' has no weights that Genesis reads: expected config.json with .safetensors files, or a .gguf "
      "file{}",
      name.id,
      has_pickles
          ? "; its weights are files of Python's pickle, which can contain programs: Genesis fetches none"
          : "");
}

}  // namespace genesis::hub
