// Imports a GGUF file (llama.cpp) as a model of the zoo, if its family has a GgufForm (models/families.h).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "models/formats/hugging_face/quantized_weights.h"
#include "models/zoo.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::gguf {

// Returns true if a file begins like a GGUF file or is named like one, so that the error for a damaged file says what is wrong
// with it.
bool is_gguf_file(const std::filesystem::path& path);

// Imports a model.
//
// `path` may be the first of several files (schema/file/other_formats/gguf_split.h). `changes` are settings of the zoo that
// override those of the file, such as {"dtype", "f32"} or {"cache_positions", "32768"}.
//
// Reads weights in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ1 to IQ4, TQ1_0, TQ2_0, MXFP4 and NVFP4. They
// become the dtype of `changes`, or the dtype of most weights. Matrices in Q8_0 and Q4_0 keep their values exactly as q8 and q4
// (keep.h) unless `quantized` asks to widen them. Other quantized weights become bf16, each number rounded once. The log says what
// became of them. Weights that have this dtype already stay in the mapped file until the model is saved. One Error lists everything that
// is not supported, another all tensors that are missing, unexpected or of another shape.
//
// The model gets the file's tokenizer, chat template and sampling settings (sampling.h). A tokenizer that cannot be converted
// causes a warning. With `has_other_tokenizer` it is not read, and the caller attaches another.
//
// `files` receives the files that weights are views into (SaveOptions::links). Tensors whose names in the file match one of the
// patterns `ignored` (`*` and `?`), and that the model has no place for, are left out, with a warning for a pattern that matches
// none.
std::unique_ptr<Model> import_model(const std::filesystem::path& path, const Settings& changes = {},
                                    MappedFiles* files = nullptr, bool has_other_tokenizer = false,
                                    const std::vector<std::string>& ignored = {},
                                    hugging_face::Quantized quantized = hugging_face::Quantized::kKept);

}  // namespace genesis::models::gguf
