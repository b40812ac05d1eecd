// Package external runs the controllers under test in another process. It becomes part of the packages with upstream's tests, under
// their names, and its functions stand where upstream starts controllers in the test's own process.
package external

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
)

// externalConfig is how the test's own client reaches the API server that the test has started last.
var externalConfig *rest.Config

// external is the running process; there is at most one.
var external struct {
	sync.Mutex
	ctx    context.Context
	starts int // contexts cannot always be compared
	cmd    *exec.Cmd
	exited chan struct{}
	file   string
}

// externalGates are the gates that some test switches; a release knows not all of them.
var externalGates = []featuregate.Feature{
	"DeploymentReplicaSetTerminatingReplicas",
	"MaxUnavailableStatefulSet",
	"PodDeletionCost",
	"StatefulSetRecreateStrategy",
}

// startExternal runs the process until ctx ends.
func startExternal(ctx context.Context) {
	external.Lock()
	defer external.Unlock()
	stopExternal()
	external.ctx = ctx
	external.starts++
	start := external.starts
	launchExternal()
	context.AfterFunc(ctx, func() {
		external.Lock()
		defer external.Unlock()
		// Another test may have started its own by now.
		if external.starts == start {
			stopExternal()
		}
	})
}

// restartExternal gives a running process the feature gates as they are now.
func restartExternal() {
	external.Lock()
	defer external.Unlock()
	if external.cmd != nil && external.ctx.Err() == nil {
		stopExternal()
		launchExternal()
	}
}

func launchExternal() {
	var args []string
	must(json.Unmarshal([]byte(os.Getenv("EXTERNAL_COMMAND")), &args))
	log, err := os.OpenFile(os.Getenv("EXTERNAL_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	defer log.Close()
	external.file = writeKubeconfig()
	// Nobody waits for the lease of the process before.
	lease := fmt.Sprintf("upstream-%d", time.Now().UnixNano())
	args = append(args, "--kubeconfig="+external.file, "--feature-gates="+gatesNow(), "--leader-elect-resource-name="+lease)
	fmt.Fprintln(log, "===", strings.Join(args, " "))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "EXTERNAL_TEST="+testRunning())
	// If the test program is killed, so is the process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(cmd.Start())
	exited := make(chan struct{})
	external.cmd, external.exited = cmd, exited
	go func() {
		err := cmd.Wait()
		close(exited)
		external.Lock()
		defer external.Unlock()
		// Every test would only run into its time limit without the process.
		if external.cmd == cmd && external.ctx.Err() == nil {
			panic(fmt.Sprintf("the process under test has ended by itself (%v): see %s", err, os.Getenv("EXTERNAL_LOG")))
		}
	}()
}

func stopExternal() {
	if external.cmd == nil {
		return
	}
	_ = external.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-external.exited:
	case <-time.After(10 * time.Second):
		_ = external.cmd.Process.Kill()
		<-external.exited
	}
	_ = os.Remove(external.file)
	external.cmd = nil
}

// testRunning is the name of the test that has called us.
func testRunning() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for {
		frame, more := frames.Next()
		for _, part := range strings.Split(frame.Function, ".") {
			if strings.HasPrefix(part, "Test") {
				return part
			}
		}
		if !more {
			panic("no test has called")
		}
	}
}

func gatesNow() string {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	var gates []string
	for _, gate := range externalGates {
		if _, ok := known[gate]; ok {
			gates = append(gates, fmt.Sprintf("%s=%t", gate, utilfeature.DefaultFeatureGate.Enabled(gate)))
		}
	}
	return strings.Join(gates, ",")
}

// writeKubeconfig does without the authority: the test server's certificate is for a name that only its own client knows.
func writeKubeconfig() string {
	type object = map[string]any
	config, err := json.Marshal(object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"clusters":        []object{{"name": "test", "cluster": object{"server": externalConfig.Host, "insecure-skip-tls-verify": true}}},
		"users":           []object{{"name": "test", "user": object{"token": externalConfig.BearerToken}}},
		"contexts":        []object{{"name": "test", "context": object{"cluster": "test", "user": "test"}}},
		"current-context": "test",
	})
	must(err)
	file, err := os.CreateTemp("", "kubeconfig-*")
	must(err)
	defer file.Close()
	_, err = file.Write(config)
	must(err)
	return file.Name()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
