// ring/coordinator/catalogue_reader.h — how a coordinator learns what the catalogue is by now.
//
// What:      CatalogueReader: the port to whoever knows what was agreed upon. A request that names
//            a memgest which is not known here, or only as CREATING, is decided behind a read that
//            began after it came (G11).
// Shape:     reads are numbered; a read covers all that asked for its number, and those before.
// Units:     reads count from 1.
// Ownership: outlives the coordinators that ask.
// Threads:   one, the node's.
// Errors:    kFailed: nobody could say.
// Source:    rule G11.
#ifndef RING_COORDINATOR_CATALOGUE_READER_H_
#define RING_COORDINATOR_CATALOGUE_READER_H_

#include <cstdint>

namespace ring::coordinator {

class CatalogueReader {
 public:
  enum class Result : std::uint8_t {
    kUnderWay = 0,
    kApplied = 1,  // all that was agreed upon before the read was asked for is known here
    kFailed = 2,
  };
  virtual ~CatalogueReader() = default;
  // Gives the number of a read that has not begun: however many ask, there is one for all.
  virtual std::uint64_t Ask() = 0;
  virtual Result Look(std::uint64_t read) const = 0;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_CATALOGUE_READER_H_
