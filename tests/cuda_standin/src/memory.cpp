#include "memory.hpp"

#include "failure.hpp"
#include "settings.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <sanitizer.hpp>
#include <vector>

namespace standin {
namespace {

std::map<uintptr_t, Allocation> allocations;
std::vector<size_t> used;
bool open = false;

constexpr size_t kAlignment = 256;  // as cudaMalloc gives it

void* pointer(const Allocation& allocation) { return reinterpret_cast<void*>(allocation.start); }

size_t& used_on(int device) {
  if (used.size() <= size_t(device)) used.resize(size_t(device) + 1);
  return used[size_t(device)];
}

bool contains(const Allocation& allocation, const void* start, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(start);
  return first >= allocation.start && bytes <= allocation.bytes &&
         first - allocation.start <= allocation.bytes - bytes;
}

void for_device_memory(void (*change)(void*, size_t)) {
  for (const auto& [start, allocation] : allocations)
    if (allocation.type == cudaMemoryTypeDevice) change(pointer(allocation), allocation.bytes);
}

}  // namespace

void* allocate(size_t bytes, cudaMemoryType type, int device) {
  const bool on_device = type == cudaMemoryTypeDevice;
  if (on_device && (bytes > settings().memory || used_on(device) > settings().memory - bytes)) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0) return nullptr;
  std::memset(memory, 0xff, bytes);
  const auto start = reinterpret_cast<uintptr_t>(memory);
  allocations[start] = {start, bytes, type, device, false};
  if (on_device) {
    used_on(device) += bytes;
    if (!open) sanitizer::poison(memory, bytes);
  }
  return memory;
}

bool release(void* start, cudaMemoryType type) {
  const auto found = allocations.find(reinterpret_cast<uintptr_t>(start));
  if (found == allocations.end() || found->second.type != type || found->second.registered) return false;
  if (type == cudaMemoryTypeDevice) {
    used_on(found->second.device) -= found->second.bytes;
    sanitizer::unpoison(start, found->second.bytes);
  }
  allocations.erase(found);
  std::free(start);
  return true;
}

bool register_host_memory(void* start, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(start);
  const Allocation* before = find_allocation(start);
  if (before && first < before->start + before->bytes) return false;
  allocations[first] = {first, bytes, cudaMemoryTypeHost, 0, true};
  return true;
}

bool unregister_host_memory(void* start) {
  const auto found = allocations.find(reinterpret_cast<uintptr_t>(start));
  if (found == allocations.end() || !found->second.registered) return false;
  allocations.erase(found);
  return true;
}

const Allocation* find_allocation(const void* address) {
  const auto first = reinterpret_cast<uintptr_t>(address);
  auto next = allocations.upper_bound(first);
  if (next == allocations.begin()) return nullptr;
  const Allocation& candidate = std::prev(next)->second;
  return first <= candidate.start + candidate.bytes ? &candidate : nullptr;
}

size_t used_memory(int device) { return used_on(device); }

void check_device_range(const void* start, size_t bytes, int device, const std::string& what) {
  const Allocation* allocation = find_allocation(start);
  if (!allocation) fail("{} {} is not memory that a device can reach", what, fmt::ptr(start));
  if (!contains(*allocation, start, bytes))
    fail("{} {} of {} bytes reaches beyond its allocation of {} bytes at {}", what, fmt::ptr(start), bytes,
         allocation->bytes, fmt::ptr(pointer(*allocation)));
  if (allocation->type == cudaMemoryTypeDevice && allocation->device != device)
    fail("{} {} is memory of device {}, used by work of device {}", what, fmt::ptr(start), allocation->device,
         device);
}

void open_device_memory() {
  if (open) return;
  open = true;
  for_device_memory(sanitizer::unpoison);
}

void close_device_memory() {
  if (!open) return;
  open = false;
  for_device_memory(sanitizer::poison);
}

}  // namespace standin
