// Matrix tiles (Intel's AMX): eight registers of 16 rows of 64 bytes, and instructions that multiply them.
#pragma once

namespace genesis::cpu {

// Whether this process may use tiles of bf16: the CPU has them, and Linux gives them to a process that asks, which this does
// once. Any thread.
bool may_use_amx_bf16();

#if defined(__x86_64__)
// How the tiles are shaped.
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

// Gives the tiles their shapes. GCC 12 takes it that _tile_loadconfig() reads 8 bytes, and leaves out what is written to the others.
inline void load_shapes(const AmxShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
#endif

}  // namespace genesis::cpu
