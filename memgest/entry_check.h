// memgest/entry_check.h — whether an entry may be folded, as far as the entry alone can tell.
//
// What:      Field by field: what each entry type must and must not have. DecodeEntry has checked
//            bounds and CRCs; this is about meaning.
// Threads:   pure.
// Errors:    kInvalidArgument naming the field.
// Source:    docs/PROTOCOL.md "Entry"; rules S10, X4.
#ifndef RING_MEMGEST_ENTRY_CHECK_H_
#define RING_MEMGEST_ENTRY_CHECK_H_

#include "absl/status/status.h"
#include "memgest/log_entry.h"

namespace ring::memgest {

absl::Status CheckEntryForFold(const EntryView& entry);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_ENTRY_CHECK_H_
