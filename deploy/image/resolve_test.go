package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

const (
	inside     = "INSIDE_NAMESPACE"
	kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"users":[{"name":"u","user":{"token":"t"}}],"clusters":[{"name":"c","cluster":{"server":"https://ADDRESS","certificate-authority-data":"AUTHORITY"}}]}`
	resolver = "nameserver 127.0.0.1\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
)

// A static glibc without a library beside it must still find an API server by name: by /etc/hosts, and by the name server of a pod. In a
// network of its own, with a root folder that holds what a container's does. PROGRAM is the real one, which image.sh gives; the probe
// otherwise.
func TestNamesAreFoundWithNothingButTheProgram(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("this is the one outside")
	}
	program := os.Getenv("PROGRAM")
	if program == "" {
		program = probe(t, static...)
	}
	command := exec.Command("/proc/self/exe", "-test.run=^TestInside$", "-test.v")
	command.Env = append(os.Environ(), inside+"="+program)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: TestInside") {
		t.Fatalf("the test inside did not run:\n%s", out)
	}
}

func TestInside(t *testing.T) {
	program := os.Getenv(inside)
	if program == "" {
		t.Skip("runs in a network of its own, by TestNamesAreFoundWithNothingButTheProgram")
	}
	loopbackUp(t)
	socket, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	go serveNames(socket)
	for _, host := range []string{"kubernetes.default.svc", "api.example"} {
		t.Run(host, func(t *testing.T) { connects(t, program, host) })
	}
}

// Connects starts the program in a root folder of its own and waits until it has connected to where the name leads.
func connects(t *testing.T, program, host string) {
	listener, err := net.Listen("tcp", "127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	root := t.TempDir()
	address := host + ":6443"
	config := strings.NewReplacer("ADDRESS", address, "AUTHORITY", authority(t)).Replace(kubeconfig)
	for path, contents := range map[string]string{
		"program":         string(read(t, program)),
		"kubeconfig":      config,
		"etc/resolv.conf": resolver,
		"etc/hosts":       "127.0.0.1 localhost\n127.0.0.1 api.example\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(contents), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	arguments := []string{address}
	if os.Getenv("PROGRAM") != "" {
		arguments = []string{"--kubeconfig=/kubeconfig", "--leader-elect=false", "--secure-port=0"}
	}
	var output strings.Builder
	command := exec.Command("/program", arguments...)
	command.Env, command.Dir = []string{}, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended, connected := make(chan error, 1), make(chan error, 1)
	go func() { ended <- command.Wait() }()
	go func() {
		_, err := listener.Accept()
		connected <- err
	}()
	select {
	case err := <-connected:
		if err != nil {
			t.Error(err)
		}
		_ = command.Process.Kill()
		<-ended
	case err := <-ended:
		// The probe may have ended before its connection was taken from the queue.
		if err != nil {
			t.Errorf("%v\n%s", err, output.String())
		}
	}
}

// Authority is a certificate to trust, as a kubeconfig has it.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
}

func loopbackUp(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}

// ServeNames knows one name, which is not among those that are asked for first.
func serveNames(socket net.PacketConn) {
	packet := make([]byte, 512)
	for {
		n, from, err := socket.ReadFrom(packet)
		if err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(packet[:n]) != nil || len(message.Questions) != 1 {
			continue
		}
		question := message.Questions[0]
		answer := dnsmessage.Message{Questions: message.Questions}
		answer.Header = dnsmessage.Header{ID: message.ID, Response: true, RecursionAvailable: true}
		switch {
		case question.Name.String() != "kubernetes.default.svc.cluster.local.":
			answer.RCode = dnsmessage.RCodeNameError
		case question.Type == dnsmessage.TypeA:
			header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 5}
			answer.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = socket.WriteTo(packed, from)
		}
	}
}
