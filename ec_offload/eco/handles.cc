#include "ec_offload/eco/handles.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ec_offload/eco/device_calc.h"

namespace ring::ec_offload::eco {
namespace {

struct Entry {
  Kind kind;
  bool releasable;
  std::shared_ptr<Coder> coder;
};

struct Table {
  Mutex mutex;
  absl::flat_hash_map<const void*, Entry> entries ABSL_GUARDED_BY(mutex);
};

// Never destroyed: threads of the program may still call while it exits.
Table& TheTable() {
  static Table* const table = new Table;
  return *table;
}

std::shared_ptr<Coder> TakeHandle(const void* handle, Kind kind) {
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  const auto found = table.entries.find(handle);
  if (found == table.entries.end() || found->second.kind != kind || !found->second.releasable)
    return nullptr;
  std::shared_ptr<Coder> coder = std::move(found->second.coder);
  table.entries.erase(handle);
  table.entries.erase(coder->context());
  return coder;
}

}  // namespace

void AddHandle(const void* handle, Kind kind, std::shared_ptr<Coder> coder) {
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  table.entries.reserve(table.entries.size() + 2);  // both, or neither
  const void* const context = coder->context();
  table.entries[handle] = Entry{kind, true, coder};
  table.entries.try_emplace(context, Entry{Kind::kContext, false, std::move(coder)});
}

std::shared_ptr<Coder> FindHandle(const void* handle, Kind kind) {
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  const auto found = table.entries.find(handle);
  if (found == table.entries.end() || found->second.kind != kind) return nullptr;
  return found->second.coder;
}

int ReleaseHandle(const void* handle, Kind kind) {
  const std::shared_ptr<Coder> coder = TakeHandle(handle, kind);
  if (coder == nullptr) return kFailed;
  // A call that waits for the mutex shares the coder, and may be the last to let go of it; the
  // calculator ends here. Not under the mutex: ending it runs functions of the program.
  std::unique_ptr<DeviceCalc> device;
  {
    const MutexLock lock(coder->mutex);
    coder->released = true;
    device = coder->TakeDevice();
  }
  return 0;
}

}  // namespace ring::ec_offload::eco
