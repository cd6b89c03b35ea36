#include "models/text/load_tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "models/open_model.h"
#include "models/text/known_tokens.h"
#include "models/text/token_rows.h"
#include "models/tokenizer/model_files.h"

namespace genesis::text {

namespace {

// Errors in the tokenizer that a model brings name the model's file.
std::optional<Tokenizer> own_tokenizer(const Model& model, const std::string& file) {
  return with_context([&] { return tokenizer_of(model); }, [&] { return file; });
}

// A folder that is older than tokenizer.json has vocab.json and merges.txt, or tokenizer.model.
Tokenizer tokenizer_at(const std::string& path) {
  const std::filesystem::path folder = path;
  if (std::filesystem::is_directory(folder) && !std::filesystem::exists(folder / "tokenizer.json")) {
    Model files;
    attach_tokenizer_files(files, folder);
    if (auto made = own_tokenizer(files, path)) return *std::move(made);
  }
  return Tokenizer::load(folder);
}

NamedTokenizer named(Tokenizer tokenizer, int64_t ids) {
  return {tokenizer, std::max(tokenizer.vocab_size(), ids)};
}

}  // namespace

NamedTokenizer load_named_tokenizer(const std::string& path) {
  if (!models::names_model(path)) return named(tokenizer_at(path), 0);
  const auto model = models::open_model(path);
  if (auto tokenizer = own_tokenizer(*model, path))
    return named(*std::move(tokenizer), known_tokens(*model).value_or(0));
  fail("{} brings no tokenizer: build it from a folder with a tokenizer, or with --tokenizer", path);
}

Tokenizer load_tokenizer(const std::string& path) { return load_named_tokenizer(path).tokenizer; }

std::optional<Tokenizer> load_tokenizer(const std::string& path, const Model& model,
                                        const std::string& file) {
  if (path.empty()) return own_tokenizer(model, file);
  return load_tokenizer(path);
}

std::optional<Tokenizer> load_fitting_tokenizer(const std::string& path, const Model& model,
                                                const std::string& file, int64_t vocabulary) {
  auto tokenizer = load_tokenizer(path, model, file);
  if (tokenizer)
    check_token_rows(*tokenizer, vocabulary, path.empty() ? "its tokenizer" : path, file);
  else if (vocabulary != 256)
    fail("{} has a vocabulary of {}: name its tokenizer with --tokenizer (text without one is bytes, 256)",
         file, vocabulary);
  return tokenizer;
}

std::optional<Tokenizer> brought_tokenizer(const Model& model, const std::string& file) {
  auto tokenizer = own_tokenizer(model, file);
  if (const auto rows = tokenizer ? known_tokens(model) : std::nullopt)
    check_token_rows(*tokenizer, *rows, "the tokenizer that the model brings", file);
  return tokenizer;
}

chat::ConfigFiles config_files(const std::string& path, const Model& model, const std::string& file) {
  if (path.empty()) return chat::ConfigFiles::of_model(model, file);
  if (models::names_model(path))
    return chat::ConfigFiles::of_model(std::shared_ptr<const Model>(models::open_model(path)), path);
  const std::filesystem::path named = path;
  return chat::ConfigFiles::in_folder(std::filesystem::is_directory(named) ? named : named.parent_path());
}

}  // namespace genesis::text
