// Intel's AMX: eight tile registers of 16 rows of 64 bytes, and instructions that multiply them.
#pragma once

namespace genesis::cpu {

// Returns true if this process may use bf16 tiles: the CPU has them, and Linux grants them to a process that asks for them. The
// first call asks. May be called by any thread.
bool may_use_amx_bf16();

#if defined(__x86_64__)
// The operand of ldtilecfg: the number of rows and the bytes per row of every tile.
struct alignas(64) AmxShapes {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short row_bytes[16] = {};
  unsigned char rows[16] = {};

  void set(int tile, int rows_of_it, int bytes_of_row) {
    rows[tile] = static_cast<unsigned char>(rows_of_it);
    row_bytes[tile] = static_cast<unsigned short>(bytes_of_row);
  }
};
static_assert(sizeof(AmxShapes) == 64);

// Loads the tile configuration. _tile_loadconfig() would not do: GCC 12 assumes that it reads only 8 bytes, and drops the stores
// to the others.
inline void load_shapes(const AmxShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
#endif

}  // namespace genesis::cpu
