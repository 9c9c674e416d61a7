#pragma once

namespace gpt {

/// What a program of this project tells its caller. Scripts act on these numbers; docs/exit-codes.md lists
/// them.
enum class ExitCode : int {
  finished = 0,
  failed = 1,          ///< any error without a code of its own
  usage = 2,           ///< options, configuration, too little memory for them, or a run folder in use
  stopped = 3,         ///< stopped on request after a checkpoint (signal, preemption, time limit)
  rank_failed = 10,    ///< a rank, node or network failed or hung
  damaged = 11,        ///< a dataset or checkpoint is damaged
  saving_failed = 12,  ///< a checkpoint could not be saved
  bad_numbers = 13,    ///< loss, gradients or logits are not finite, or weights differ between ranks
  preflight = 14,      ///< the preflight check refused this machine, or its GPUs do not fit the job
};

}  // namespace gpt
