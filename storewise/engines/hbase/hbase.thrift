// The part of HBase 2's thrift2/hbase.thrift that is used; the numbers of fields are its own.
struct TColumnValue {
  1: binary family, 2: binary qualifier, 3: binary value, 4: optional i64 timestamp
}
struct TResult {1: optional binary row, 2: list<TColumnValue> columnValues}
enum TDurability {USE_DEFAULT = 0, SKIP_WAL = 1, ASYNC_WAL = 2, SYNC_WAL = 3, FSYNC_WAL = 4}
struct TGet {1: binary row}
struct TPut {1: binary row, 2: list<TColumnValue> columnValues, 6: optional TDurability durability}
struct TDelete {1: binary row, 3: optional i64 timestamp, 7: optional TDurability durability}
struct TScan {1: optional binary startRow, 4: optional i32 caching, 7: optional binary filterString}
struct TServerName {1: string hostName, 2: optional i32 port}
struct THRegionInfo {1: i64 regionId, 2: binary tableName, 3: optional binary startKey}
struct THRegionLocation {1: TServerName serverName, 2: THRegionInfo regionInfo}
struct TTableName {1: optional binary ns, 2: binary qualifier}
struct TColumnFamilyDescriptor {1: binary name, 10: optional i32 maxVersions}
struct TTableDescriptor {
  1: TTableName tableName, 2: optional list<TColumnFamilyDescriptor> columns,
  3: optional map<binary, binary> attributes
}
exception TIOError {1: optional string message}
enum TCompareOperator {NOT_EQUAL = 3}
union TMutation {1: TPut put}
struct TRowMutations {1: binary row, 2: list<TMutation> mutations}
enum TThriftServerType {ONE = 1, TWO = 2}
service THBaseService {
  list<TResult> getMultiple(1: binary table, 2: list<TGet> tgets) throws (1: TIOError io)
  void putMultiple(1: binary table, 2: list<TPut> tputs) throws (1: TIOError io)
  void deleteSingle(1: binary table, 2: TDelete tdelete) throws (1: TIOError io)
  bool checkAndMutate(
    1: binary table, 2: binary row, 3: binary family, 4: binary qualifier,
    5: TCompareOperator compareOperator, 6: binary value, 7: TRowMutations rowMutations)
    throws (1: TIOError io)
  list<TResult> getScannerResults(1: binary table, 2: TScan tscan, 3: i32 numRows)
    throws (1: TIOError io)
  list<THRegionLocation> getAllRegionLocations(1: binary table) throws (1: TIOError io)
  list<TTableDescriptor> getTableDescriptorsByNamespace(1: string name) throws (1: TIOError io)
  void createTable(1: TTableDescriptor desc, 2: list<binary> splitKeys) throws (1: TIOError io)
  void disableTable(1: TTableName tableName) throws (1: TIOError io)
  bool isTableDisabled(1: TTableName tableName) throws (1: TIOError io)
  void deleteTable(1: TTableName tableName) throws (1: TIOError io)
  TThriftServerType getThriftServerType()
}
