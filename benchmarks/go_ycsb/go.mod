module storewise/go_ycsb

go 1.22

require github.com/pingcap/go-ycsb v1.0.1
