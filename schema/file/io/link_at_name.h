// Says what writing a file does to a symbolic link at its path.
#pragma once

namespace genesis {

enum class LinkAtName {
  kFollowed,  // the user gave the name: replaces the file that the link points to
  kReplaced,  // Genesis chose the name (a checkpoint): replaces the link and writes nothing elsewhere
};

}  // namespace genesis
