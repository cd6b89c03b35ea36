// Documents of a corpus: lines of .jsonl files, which are objects with a text "text", and what other files hold between the
// texts of a mark such as <|endoftext|>. Used by what tokenizes a corpus or learns a tokenizer from one; it never holds more of it than a thread works on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/corpus/text_files.h"

namespace genesis::corpus {

// Why a row with "conversations" is refused.
inline constexpr std::string_view kShareGptRow =
    "this is a row of ShareGPT ('conversations' with 'from' and 'value'), which is not read: write it as "
    "{\"messages\": [{\"role\": ..., \"content\": ...}]}, where 'value' becomes 'content', 'from' becomes "
    "'role', and "
    "its 'human' becomes 'user', 'gpt' becomes 'assistant'";

// The document of a line, which is JSON with a text "text"; "" for an empty line. Throws Error for any other.
std::string document_in(std::string_view line);

// A document, or the next part of a long one: at least 64 KiB, cut behind a line feed with no white space behind it, where
// the expressions of GPT-2, Llama 3 and Qwen begin a new word anyway.
struct DocumentPart {
  std::string_view text;
  uint64_t unit =
      0;  // where its document begins in the file; of documents of more than 1 MiB, where the part does
  bool is_first = false, is_last = false;
};

// A file in chunks of some `bytes`, which end where a part may end. `mark` stands between the documents of a text, "" for
// nothing. Throws Error as check_is_text does.
std::vector<Chunk> chunks_of(const std::filesystem::path& path, std::string_view file, size_t bytes,
                             std::string_view mark);

// Lines that hold no document.
struct BadLine {
  uint64_t offset = 0;
  std::string reason;
};

// Calls `on_part` with the documents of a chunk, in their order. Returns the bad lines. Documents without any text are left out.
std::vector<BadLine> for_each_part(const Chunk& chunk, std::string_view mark,
                                   const std::function<void(const DocumentPart&)>& on_part);

// "FILE:LINE: reason".
std::string describe(const Chunk& chunk, const BadLine& line);

}  // namespace genesis::corpus
