// How this process was started among others, as the environment says.
#pragma once

#include <string>

namespace genesis {

enum class Launcher {
  kNone,       // this process stands alone
  kMpi,        // mpirun: MPI knows the ranks
  kSlurm,      // srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID
  kVariables,  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, as torchrun sets them
};

// Whether the ranks find each other by MPI.
enum class MpiRanks {
  kNone,
  kPerhaps,  // srun speaks an old protocol (PMI), and a MPI library that knows only the newer one ends the process at its start
  kExpected,
};

struct Launch {
  Launcher by = Launcher::kNone;
  int rank = 0, size = 1;
  int local_rank = 0;        // among the ranks of this host
  bool is_one_host = false;  // all ranks are known to be on this host
  MpiRanks mpi = MpiRanks::kNone;
  std::string address;  // "HOST:PORT" at which ranks without MPI find each other
  int gpu = 0;          // as gpu_of() says, where the ranks are on GPUs
};

// Throws Error naming a variable that is no number, missing, or does not fit the others.
Launch find_launch();

// By whom, the rank and the size alone: what ranks need to find each other may be missing.
Launch find_ranks();

// Which of the GPUs that this process sees is its own: one for each rank of the host, or the only one that the launcher lets
// this rank see, as srun --gpus-per-task=1 does.
int gpu_of(const Launch& launch, int visible);

// Takes from the environment what launchers have set, so that ranks which this process starts take nothing of it for theirs.
void forget_launchers();

// "mpirun", "srun", "RANK and WORLD_SIZE", for messages.
std::string_view name_of(Launcher launcher);

}  // namespace genesis
