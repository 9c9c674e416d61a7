#pragma once

#include <array>
#include <optional>

namespace gpt {

/// What the driver of a GPU says of it at one moment; what it does not say is left out.
struct GpuStatus {
  std::optional<double> memory_bytes = {};   ///< in use, by whomever; the driver's own share counts
  std::optional<double> process_bytes = {};  ///< of these, this process's
  std::optional<double> watts = {};          ///< drawn by the whole board
  std::optional<double> celsius = {};
  std::optional<double> sm_mhz = {};  ///< clock of the multiprocessors

  bool operator==(const GpuStatus&) const = default;
};

/// A value of GpuStatus, and what log.jsonl calls it.
struct GpuField {
  const char* name;
  std::optional<double> GpuStatus::*value;
  bool whole;  ///< a whole number
};

inline constexpr std::array<GpuField, 5> gpu_fields{{
    {"gpu_memory_bytes", &GpuStatus::memory_bytes, true},
    {"gpu_process_bytes", &GpuStatus::process_bytes, true},
    {"gpu_watts", &GpuStatus::watts, false},
    {"gpu_celsius", &GpuStatus::celsius, true},
    {"gpu_sm_mhz", &GpuStatus::sm_mhz, true},
}};

}  // namespace gpt
