// Splits a corpus into documents: lines of .jsonl files, which are objects with a string "text", or the texts that a separator
// such as <|endoftext|> separates in other files. Never holds more of the corpus in memory than each thread works on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/corpus/text_files.h"

namespace genesis::corpus {

// The error message for a row with "conversations".
inline constexpr std::string_view kShareGptRow =
    "this is a row of ShareGPT ('conversations' with 'from' and 'value'), which is not read: write it as "
    "{\"messages\": [{\"role\": ..., \"content\": ...}]}, where 'value' becomes 'content', 'from' becomes "
    "'role', and "
    "its 'human' becomes 'user', 'gpt' becomes 'assistant'";

// Returns the document of a line, which is JSON with a string "text"; "" for an empty line. Throws Error for any other line.
std::string document_in(std::string_view line);

// A document, or the next part of a long one. Parts have at least 64 KiB and end behind a line feed that no white space follows,
// where the pre-tokenization expressions of GPT-2, Llama 3 and Qwen begin a new word anyway.
struct DocumentPart {
  std::string_view text;
  uint64_t unit =
      0;  // byte offset in the file of its document within its chunk; of the part itself if that exceeds 1 MiB
  bool is_first = false, is_last = false;
};

// Splits a file into chunks of about `bytes` bytes, which end where a part may end. `mark` separates the documents of a text
// file; "" if nothing does. Throws Error as check_is_text does.
std::vector<Chunk> chunks_of(const std::filesystem::path& path, std::string_view file, size_t bytes,
                             std::string_view mark);

// A line that holds no document.
struct BadLine {
  uint64_t offset = 0;
  std::string reason;
};

// Calls `on_part` with the documents of a chunk, in order. Empty documents are left out. Returns the bad lines.
std::vector<BadLine> for_each_part(const Chunk& chunk, std::string_view mark,
                                   const std::function<void(const DocumentPart&)>& on_part);

// Returns "FILE:LINE: reason".
std::string describe(const Chunk& chunk, const BadLine& line);

}  // namespace genesis::corpus
