// Names of the files in a folder of checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace genesis {

// Returns the path of a step's checkpoint: DIR/step-000000300.genesis.
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, int64_t step);

// Returns the step in a checkpoint's file name; empty if the name is not that of a checkpoint.
std::optional<int64_t> step_of_checkpoint(const std::filesystem::path& path);
// Returns true if a file of this name in a checkpoint folder is a checkpoint.
bool is_checkpoint_name(const std::filesystem::path& name);

// Returns the folder with the shards of a checkpoint: DIR/step-000000300.parts.
std::filesystem::path shards_folder(const std::filesystem::path& checkpoint);
inline constexpr std::string_view kShardsSuffix = ".parts";

// The file name of the model of the best evaluation, beside the checkpoints.
inline constexpr const char* kBestModel = "best.genesis";

}  // namespace genesis
