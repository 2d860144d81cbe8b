import sys, time, importlib, torch
torch.set_num_threads(1)
from clcore import ledger
mod=importlib.import_module('clcore.checks.'+sys.argv[1]); draws=int(sys.argv[2]); seeds=range(int(sys.argv[3])); names=sys.argv[4:] or None
T=0
for n in names or mod.__all__:
    for s in seeds:
        t=time.time()
        try:
            cs=list(getattr(mod,n)(draws,s))
            b=ledger.Ledger('any')
            for c in cs:
                try: ok=ledger.judge(c)
                except Exception as e: ok='ERR '+str(e)[:230]
                if s==0 or ok is not True and c.form!='printed' or isinstance(ok,str) : print(s,n,'|',c.part,c.form,ok,'%.3g'%c.measured,'%.3g'%c.bound,{k:'%.3g'%v for k,v in c.control.items()},c.draws)
        except Exception as e:
            import traceback; traceback.print_exc(limit=-3); 
        dt=time.time()-t; T+=dt
    print(n,'%.2fs'%dt)
print('total',T)
