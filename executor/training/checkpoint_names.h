// What files are called in a folder of checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace genesis {

// Where the checkpoint of a step is: DIR/step-000000300.genesis.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, int64_t step);

// The step that a checkpoint's name says; empty where a file of this name is none.
std::optional<int64_t> step_of_checkpoint(const std::filesystem::path& path);
// Whether a file of this name in a checkpoint folder is a checkpoint.
bool is_checkpoint_name(const std::filesystem::path& name);

// The folder of the parts of a checkpoint: DIR/step-000000300.parts.
std::filesystem::path parts_folder(const std::filesystem::path& checkpoint);
inline constexpr std::string_view kPartsSuffix = ".parts";

// Beside the checkpoints: the model of the best evaluation.
inline constexpr const char* kBestModel = "best.genesis";

}  // namespace genesis
