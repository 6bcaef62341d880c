// go-ycsb with four bindings: some of the others take minutes and gigabytes to build.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/cassandra"
	_ "github.com/pingcap/go-ycsb/db/mongodb"
	_ "github.com/pingcap/go-ycsb/db/mysql"
	_ "github.com/pingcap/go-ycsb/db/pg"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

func seconds(t syscall.Timeval) float64 {
	return float64(t.Sec) + float64(t.Usec)/1e6
}

// usage: go_ycsb load|run DATABASE KEY=VALUE...; the properties are YCSB's, and `seconds`, which ends
// a run. Its last line tells run time and processor time in s.
func main() {
	if len(os.Args) < 3 || (os.Args[1] != "load" && os.Args[1] != "run") {
		fmt.Fprintln(os.Stderr, "usage: go_ycsb load|run DATABASE KEY=VALUE...")
		os.Exit(2)
	}
	props := properties.NewProperties()
	for _, item := range os.Args[3:] {
		key, value, found := strings.Cut(item, "=")
		if !found {
			fmt.Fprintf(os.Stderr, "%q is not KEY=VALUE\n", item)
			os.Exit(2)
		}
		props.Set(key, value)
	}
	props.Set(prop.DoTransactions, map[string]string{"load": "false", "run": "true"}[os.Args[1]])
	props.Set(prop.Command, os.Args[1])
	measurement.InitMeasure(props)
	workload, err := ycsb.GetWorkloadCreator("core").Create(props)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	creator := ycsb.GetDBCreator(os.Args[2])
	if creator == nil {
		fmt.Fprintf(os.Stderr, "no binding is called %q\n", os.Args[2])
		os.Exit(1)
	}
	db, err := creator.Create(props)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	wrapped := client.DbWrapper{DB: db}
	ctx := context.Background()
	if limit := props.GetFloat64("seconds", 0); limit > 0 {
		// No deadline, which some drivers look at before they send anything.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		time.AfterFunc(time.Duration(limit*float64(time.Second)), cancel)
	}
	start := time.Now()
	client.NewClient(props, workload, wrapped).Run(ctx)
	took := time.Since(start).Seconds()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	measurement.Output()
	fmt.Printf("RUNTIME %.6f CPU %.6f\n", took, seconds(used.Utime)+seconds(used.Stime))
}
