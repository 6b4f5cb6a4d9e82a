#include "ec_offload/eco/handles.h"

#include <map>
#include <memory>
#include <utility>

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
  // Not absl's map: when there is no memory it must stay as it was.
  std::map<const void*, Entry> entries ABSL_GUARDED_BY(mutex);
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
  // Both, or neither: what may fail is over when they get into the table.
  std::map<const void*, Entry> added;
  const void* const context = coder->context();
  added.try_emplace(handle, Entry{kind, true, coder});
  added.try_emplace(context, Entry{Kind::kContext, false, std::move(coder)});
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  table.entries.merge(added);
}

std::shared_ptr<Coder> FindHandle(const void* handle, Kind kind) {
  Table& table = TheTable();
  const MutexLock lock(table.mutex);
  const auto found = table.entries.find(handle);
  if (found == table.entries.end() || found->second.kind != kind) return nullptr;
  return found->second.coder;
}

int ReleaseHandle(const void* handle, Kind kind) {
  // The end of the calculator waits for the end of its completions.
  if (const auto coder = FindHandle(handle, kind); coder != nullptr) {
    const MutexLock lock(coder->mutex);
    if (coder->InCompletion()) return kFailed;
  }
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
